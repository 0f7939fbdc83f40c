"""ModernBERT's step on paper against sums done by hand."""

import unittest

import roofline
import roofline_modernbert as step


class ModernBert(unittest.TestCase):
    def test_products_are_those_of_the_counted_operations(self):
        tokens = 10240
        attention = 12 * step.HIDDEN * (8 * step.LENGTH + 14 * 129) * tokens
        whole = sum(kernel.operations for kernel in step.products(tokens, selects=False))
        self.assertAlmostEqual(whole / (step.COUNTED * tokens - attention), 1, places=9)
        # The last block leaves out 70% of the tokens but for keys and values: 4 h^2 + 3 h i less 2 h^2.
        spared = 6 * 0.7 * tokens * (2 * step.HIDDEN**2 + 3 * step.HIDDEN * step.INNER)
        selected = sum(kernel.operations for kernel in step.products(tokens))
        self.assertAlmostEqual((whole - selected) / spared, 1, places=9)

    def test_parameters_are_those_of_the_sizes(self):
        h, i = step.HIDDEN, step.INNER
        blocks = step.LAYERS * (4 * h * h + 3 * h * i) + (2 * step.LAYERS - 1) * h
        head = h * h + h + step.VOCABULARY
        self.assertEqual(step.VOCABULARY * h + h + blocks + h + head, step.PARAMETERS)

    def test_streams_by_hand(self):
        kernels = {kernel.name: kernel.bytes for kernel in step.streams(1000)}
        blocks = 21 + 0.3
        self.assertAlmostEqual(kernels["gate: forward"], 2 * 1000 * blocks * 3 * 1152)
        self.assertAlmostEqual(kernels["rotary positions"], 2 * 1000 * blocks * 2 * (2 * 768))
        self.assertAlmostEqual(kernels["cross entropy"], 2 * 300 * 50368 * 2)

    def test_a_window_costs_less_than_all_keys_and_micro_batches_share_the_update(self):
        chip, gpu = step.attention.CHIPS[0], roofline.GPUS[0]
        times = step.attention_seconds(65536, chip)
        for way in ("forward", "backward"):
            # 14 blocks of windows beside 8 of all keys
            self.assertLess(times[f"local attention: {way}"] / 14, 0.5 * times[f"global attention: {way}"] / 8)
        update = lambda tokens: next(row.paper for row in step.timed(tokens, gpu, chip, step.ratios()) if row.kernel.name == "StableAdamW")
        self.assertAlmostEqual(update(65536) / update(32768), 2)

    def test_no_product_is_faster_than_what_was_measured(self):
        rows = step.timed(65536, roofline.GPUS[0], step.attention.CHIPS[0], step.ratios())
        for row in rows:
            if row.kernel.shape:
                self.assertGreaterEqual(row.measured * step.PRODUCT_RATE, 0.999999 * row.kernel.operations, row.kernel.name)


if __name__ == "__main__":
    unittest.main()
