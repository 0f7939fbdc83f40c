"""The roofline's arithmetic against sums done by hand, and ptxas' report as it writes it."""

import os
import unittest

import roofline
from roofline import BASE, GPUS, LARGE

H100, H200, A100 = GPUS

REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5firstv' for 'sm_90'
ptxas info    : Function properties for _Z5firstv
    24 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 24 bytes cumulative stack size, 2048 bytes smem
ptxas info    : Compiling entry function '_Z6secondv' for 'sm_90'
ptxas info    : Function properties for _Z6secondv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, used 0 barriers
"""


class Model(unittest.TestCase):
    def test_parameters_are_those_of_the_published_models_with_a_classifier(self):
        self.assertEqual(BASE.parameters, 109_482_240 + 2 * 768 + 2)
        self.assertEqual(LARGE.parameters, 335_141_888 + 2 * 1024 + 2)

    def test_products_are_72_l_h_squared_operations_a_token(self):
        for model in (BASE, LARGE):
            total = sum(kernel.operations for kernel in roofline.products_of_step(model, 1000))
            self.assertAlmostEqual(total / (72.0 * model.layers * model.hidden**2 * 1000), 1.0)

    def test_attention_counts_pairs_of_tokens(self):
        forward, backward = roofline.attention_of_step(BASE, [10, 20])
        self.assertEqual(forward.operations, 4 * 12 * 768 * (100 + 400))
        self.assertEqual(backward.operations, 10 * 12 * 768 * (100 + 400))

    def test_bytes_of_a_product_by_hand(self):
        kernel = roofline.product("x", 3, 2, 5, 7, out=4)
        self.assertEqual(kernel.bytes, 3 * (2 * 2 * 7 + 2 * 7 * 5 + 4 * 2 * 5))
        self.assertEqual(kernel.operations, 3 * 2 * 2 * 5 * 7)


    def test_partial_sums_by_hand(self):
        self.assertEqual(roofline.partial_sums(BASE, 10_000), 132 * 3 * 768 * 4)
        self.assertEqual(roofline.partial_sums(LARGE, 10_000), 132 * 3 * 1024 * 4)
        self.assertEqual(roofline.partial_sums(BASE, 33), 7 * 3 * 768 * 4)

    def test_fp8_steps_have_the_other_kernels_of_bf16_steps(self):
        names = lambda kernels: {k.name for k in kernels}
        roundings = names(roofline.fp8_roundings_of_step(BASE, 200))
        of_gelu = {"GELU", "GELU: backward"}
        self.assertEqual(names(roofline.fp8_kernels_of_step(BASE, [100, 100])) - roundings,
                         names(roofline.kernels_of_step(BASE, [100, 100])) - of_gelu | {"gradients of the intermediate biases"})

    def test_fp8_halves_operands_and_rounds_them(self):
        half, eighth = (roofline.products_of_step(BASE, 1000, operand) for operand in (2, 1))
        for wide, narrow in zip(half, eighth):
            rows, columns, inner = narrow.shape
            self.assertEqual(narrow.operations, wide.operations)
            self.assertEqual(wide.bytes - narrow.bytes, narrow.launches * inner * (rows + columns))
        # Into a block's layers: h, h, h, 4h, twice three bytes of each element; out of them: 3h, h, 4h, h.
        plain, transposed, gradients, weights = roofline.fp8_roundings_of_step(BASE, 1000)
        self.assertEqual(plain.bytes + transposed.bytes, 2 * 3 * 12 * 1000 * 7 * 768)
        self.assertEqual(gradients.bytes, 4 * 12 * 1000 * 9 * 768 + 2 * 12 * 1000 * 3072)  # GELU's gradient reads its input, too
        self.assertEqual(weights.bytes, 12 * 12 * 768**2 * (2 + 2 + 1 + 1))


class Times(unittest.TestCase):
    def test_a_stream_takes_its_bytes_and_a_small_one_the_floor(self):
        stream = roofline.Kernel("x", 2, 9e9)
        self.assertAlmostEqual(roofline.seconds(stream, H100, [1]), 9e9 / (0.9 * 3.35e12))
        self.assertAlmostEqual(roofline.seconds(roofline.Kernel("x", 2, 10.0), H100, [1]), 2 * roofline.FLOOR)

    def test_whole_waves_of_whole_tiles(self):
        # 132 tiles of 128 × 256 fill an H100 once; one more column of tiles needs a second wave.
        self.assertAlmostEqual(roofline.tile_share(128 * 132, 256, 132), 1.0)
        self.assertLess(roofline.tile_share(128 * 133, 256, 132), 0.9)
        self.assertAlmostEqual(2 * roofline.seconds(roofline.product("x", 1, 8448, 8192, 99999, operand=1), H100, [1]),
                               roofline.seconds(roofline.product("x", 1, 8448, 8192, 99999), H100, [1]) + roofline.RAMP)
        # A tile half empty is half wasted, whichever tile is best.
        self.assertLessEqual(roofline.tile_share(32, 64, 1), 0.5)

    def test_a_split_fills_the_device_and_pays_for_its_partial_sums(self):
        # 36 tiles of 128 × 128: in three parts they fill 108 of 132 multiprocessors. Whole, 72 smaller ones do best.
        self.assertAlmostEqual(roofline.tile_share(768, 768, 132, 3), 0.9 * 108 / 132)
        self.assertAlmostEqual(roofline.tile_share(768, 768, 132), 0.75 * 72 / 132)
        whole = roofline.product("x", 1, 768, 768, 100_000)
        split = roofline.product("x", 1, 768, 768, 100_000, split=True)
        self.assertEqual(roofline.parts_of(whole), [1])
        self.assertEqual(roofline.parts_of(split)[-1], 14)  # 14 · 4 · 768² bytes are within 32 MiB, 15 are not
        self.assertEqual(roofline.parts_of(roofline.product("x", 1, 768, 768, 300, split=True)), [1, 2])
        self.assertLess(roofline.seconds(split, H100, [1]), 0.7 * roofline.seconds(whole, H100, [1]))
        bytes_of_parts = 2 * 3 * 4 * 768 * 768  # written and read
        tiny = roofline.Kernel("x", 1, 0.0, 1.0, (768, 768, 768))
        self.assertAlmostEqual(roofline.product_seconds(tiny, H100, 3), bytes_of_parts / (0.9 * 3.35e12) + roofline.FLOOR
                               + roofline.RAMP)

    def test_products_of_base_run_at_400_to_500_teraflops_and_large_ones_near_the_share(self):
        lengths = roofline.shape_cases()[0][2]
        products = roofline.products_of_step(BASE, sum(lengths))
        rate = sum(k.operations for k in products) / sum(roofline.seconds(k, H100, lengths) for k in products)
        self.assertTrue(400e12 < rate < 500e12, rate)
        large = roofline.product("x", 1, 8192, 8192, 8192)
        self.assertGreater(large.operations / roofline.seconds(large, H200, [1]), 0.9 * 0.70 * 989e12)

    def test_several_ranks_send_about_a_dozen_messages_each_way(self):
        self.assertEqual(roofline.messages_of(BASE), 14)
        launches = lambda ranks: {k.name: k.launches for k in roofline.streams_of_step(BASE, 100, 2, ranks)}
        self.assertEqual(launches(8)["AdamW"], 14)
        self.assertEqual(launches(1)["AdamW"], 1)

    def test_one_rank_writes_rounded_weights_with_the_update(self):
        weights = BASE.parameters - (30522 + 512 + 2) * 768
        of = lambda ranks: {k.name: k.bytes for k in roofline.streams_of_step(BASE, 100, 2, ranks)}
        spared = 4 * 12 * 12 * 768**2  # zeros of gradients that the next step replaces
        self.assertEqual(of(1)["AdamW"], 32 * BASE.parameters + 2 * weights - spared)
        self.assertEqual(of(4)["AdamW"], 32 * BASE.parameters - spared)
        self.assertEqual(of(4)["weights to 16 bits, after the update"], 6 * weights)

    def test_gradients_in_16_bits_spare_six_bytes_of_a_block_s_weight(self):
        blocks = 12 * 12 * 768**2
        streams = lambda narrow: {k.name: k.bytes for k in roofline.streams_of_step(BASE, 100, 2, narrow=narrow)}
        for name in ("AdamW", "gradient norm"):
            self.assertEqual(streams(False)[name] - streams(True)[name], 2 * blocks)
        products = lambda narrow: sum(k.bytes for k in roofline.products_of_step(BASE, 100, narrow=narrow))
        self.assertEqual(products(False) - products(True), 2 * blocks)
        # One rank alone has them.
        for ranks in (1, 2):
            found = {k.name: k.bytes for k in roofline.kernels_of_step(BASE, [50, 50], ranks)}["gradient norm"]
            self.assertEqual(found, streams(ranks == 1)["gradient norm"])

    def test_full_attention_tiles_at_512_run_at_the_rate_named(self):
        self.assertAlmostEqual(roofline.attention_share([512, 512]), 1.0)
        self.assertLess(roofline.attention_share([129]), 0.5)

    def test_launches_are_those_that_a_step_was_counted_to_take(self):
        for model in (roofline.BASE, roofline.LARGE):
            counted = sum(roofline.CALLS[model.layers].values())
            self.assertEqual(sum(kernel.launches for kernel in roofline.kernels_of_step(model, [50, 50])), counted)

    def test_a_step_is_at_least_its_launches_and_faster_memory_never_hurts(self):
        for title, model, lengths in roofline.shape_cases():
            with self.subTest(title):
                e = roofline.estimate(model, lengths, H100)
                self.assertGreaterEqual(e.step, e.host)
                self.assertGreaterEqual(e.step, e.useful / H100.tensor)
                self.assertLessEqual(roofline.estimate(model, lengths, H200).device, e.device)
                self.assertGreater(roofline.estimate(model, lengths, A100).device, e.device)


class Compiler(unittest.TestCase):
    def test_report(self):
        found = roofline.parse_ptxas(REPORT)
        self.assertEqual(
            found["_Z5firstv"],
            {"registers": 40, "stack": 24, "spill_stores": 4, "spill_loads": 8, "shared": 2048},
        )
        self.assertEqual(found["_Z6secondv"]["registers"], 16)
        self.assertEqual(found["_Z6secondv"]["shared"], 0)
        self.assertEqual(roofline.parse_ptxas("nothing of the kind"), {})

    def test_names(self):
        space = "47_GLOBAL__N__cddbb1a2_14_activation_cpp_a6784da1"
        body = f"_ZN6Kokkos4Impl6launchIZN8bert_hpc3ops6kernel12for_elementsIZNS4_{space}7gelu_inI"
        self.assertEqual(roofline.short_name(body + "N8bert_hpc4core4Bf16EEEvv"), "gelu_in (bf16)")
        self.assertEqual(roofline.short_name(body + "fEEvv"), "gelu_in (fp32)")
        self.assertEqual(roofline.short_name("_ZN8bert_hpc3ops9hash_bitsEv"), "hash_bits")
        self.assertIsNone(roofline.short_name("_ZN3cub9somethingEv"))
        kernels = roofline.kernel_resources({"file": REPORT.replace("_Z5firstv", body + "fEEvv")})
        self.assertEqual(list(kernels), ["file: gelu_in (fp32)"])


class Document(unittest.TestCase):
    def test_has_every_case_and_the_committed_one_is_of_this_script(self):
        text = roofline.document("abc", {"k (bf16)": {"registers": 1, "stack": 2, "spill_stores": 3, "spill_loads": 4, "shared": 5}})
        self.assertIn("| k (bf16) | 1 | 2 | 3 + 4 | 5 |", text)
        with open(os.path.join(os.path.dirname(roofline.__file__), "results", "roofline.md")) as file:
            committed = file.read()
        for line in roofline.summary_lines() + roofline.fp8_lines():
            self.assertIn(line, committed, "run tests/bench/roofline.py again")


if __name__ == "__main__":
    unittest.main()
