"""kernels.py on a log as ncu writes it: names, units, groups, sums and expectations."""

import os
import subprocess
import sys
import tempfile
import unittest

import cases
import kernels
import roofline

HERE = os.path.dirname(os.path.abspath(cases.__file__))

# Kernels of ours as nvcc names them, cut where nothing is read, and of cuBLASLt.
ADAMW = ("_ZN8bert_hpc3ops6kernel5warpsIZNS1_8for_rowsIZNS0_13update_piecesINS_4core4Bf16EZNS0_50_GLOBAL__N__bf009f66_17_"
         "update_ranges_cpp_5ae1c759")
NORM = "_ZN8bert_hpc3ops6kernel5warpsIZNS1_8for_rowsIZNS0_19squared_norm_blocksESt4spanIKf"
GELU = "_ZN8bert_hpc3ops6kernel9pack_rowsIZNS0_47_GLOBAL__N__33e66ea2_14_activation_cpp_a6784da120bias_gelu_forward_inINS_4core4Bf16EEE"
GELU_SUMS = "_ZN8bert_hpc3ops6kernel14sums_of_stripsINS1_9StripSumsILi1ENS0_5packs16GeluBackwardTermINS_4core4Bf16EEENS1_10FinishSumsEEE"
COLUMN_SUMS = "_ZN8bert_hpc3ops6kernel14sums_of_stripsINS1_9StripSumsILi1ENS0_5packs10ColumnTermINS_4core4Bf16EEENS1_10FinishSumsEEE"
NORM_WEIGHTS = "_ZN8bert_hpc3ops6kernel14sums_of_stripsINS1_9StripSumsILi2ENS0_5packs14NormWeightTermINS_4core4Bf16EEE"
NORM_FORWARD = "_ZN8bert_hpc3ops6kernel17norm_forward_rowsINS_4core4Bf16ENS0_5packs4WarpILi3ELb1EEEEEvNS4_11NormForwardIT_EE"
NORM_SUMS = "_ZN8bert_hpc3ops6kernel18norm_backward_sumsINS_4core4Bf16ENS0_5packs4WarpILi3ELb1EEEEEvNS4_12NormBackwardIT_S8_EE"
LAYER_NORM = ("_ZN6Kokkos4Impl33cuda_parallel_launch_local_memoryINS0_11ParallelForIZN45_INTERNAL_e9aef0ed_14_layer_norm_cpp_c1522823"
              "8bert_hpc3ops47_GLOBAL__N__e9aef0ed_14_layer_norm_cpp_c152282311backward_inINS_4core4Bf16EEE")
EMBEDDING = ("_ZN6Kokkos4Impl33cuda_parallel_launch_local_memoryINS0_11ParallelForIN8bert_hpc3ops46_GLOBAL__N__12345678_13_"
             "embedding_cpp_fac9d44a17EmbeddingGradientIfEE")
ATTENTION = "_ZN8bert_hpc3ops4cuda30attention_backward_keys_kernelINS_4core4Bf16EEEvNS1_13AttentionCallIT_EE"
PRODUCT = "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NTN"
SPLIT = "_ZN8cublasLt19splitKreduce_kernelILi32ELi16EiffEEv"

LOG = f'''==PROF== Connected to process 77 (/bundle/bin/bench_training)
==PROF== Profiling "nvjet": 0%....50%....100% - 1 pass
==PROF== Disconnected from process 77
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__bytes.sum","gpu__time_duration.sum"
"","","","","","","","","","","","byte","ns"
"0","77","bench_training","127.0.0.1","{PRODUCT}","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0","10,000,000","20,000"
"1","77","bench_training","127.0.0.1","{PRODUCT}","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0","10000000","30000"
"2","77","bench_training","127.0.0.1","{ADAMW}","1","7","(128, 1, 1)","(132, 1, 1)","0","9.0","3350000000","2000000"
'''


class Kernels(unittest.TestCase):
    def test_log_with_base_and_with_other_units(self):
        found = kernels.parse(LOG.splitlines())
        self.assertEqual([name for name, _, _ in found], [PRODUCT, PRODUCT, ADAMW])
        self.assertAlmostEqual(found[0][1], 20e-6)
        self.assertAlmostEqual(found[0][2], 10e6)
        scaled = kernels.parse(LOG.replace('"byte","ns"', '"Kbyte","us"').splitlines())
        self.assertAlmostEqual(scaled[1][1], 30e-3)
        self.assertAlmostEqual(scaled[1][2], 10e9)
        self.assertEqual(kernels.parse(["==ERROR== ERR_NVGPUCTRPERM"]), [])
        self.assertEqual(kernels.parse(LOG.splitlines()[:5]), [])

    def test_names_and_groups(self):
        for mangled, name, group in (
            (ADAMW, "update_ranges: update_pieces (bf16)", "AdamW"),
            (NORM, "squared_norm_blocks", "gradient norm"),
            (GELU, "activation: bias_gelu_forward_in (bf16)", "GELU: forward"),
            (LAYER_NORM, "layer_norm: backward_in (bf16)", "layer norm: backward"),
            (GELU_SUMS, "GeluBackwardTerm (bf16)", "GELU: backward"),
            (COLUMN_SUMS, "ColumnTerm (bf16)", "gradients of biases"),
            (NORM_WEIGHTS, "NormWeightTerm (bf16)", "layer norm: gradients of weights"),
            (NORM_FORWARD, "norm_forward_rows (bf16)", "layer norm: forward"),
            (NORM_SUMS, "norm_backward_sums (bf16)", "layer norm: backward"),
            (EMBEDDING, "embedding: EmbeddingGradient (fp32)", "embedding"),
            (ATTENTION, "attention_backward_keys_kernel (bf16)", "attention: backward"),
            (PRODUCT, PRODUCT, "matrix products"),
            (SPLIT, "N8cublasLt19splitKreduce_kernelILi32ELi16EiffEEv", "matrix products"),
        ):
            self.assertEqual(kernels.short_name(mangled), name)
            self.assertEqual(kernels.group_of(name, 1), group)

    def test_every_row_of_the_roofline_has_a_group(self):
        groups = {}
        for fp8 in (False, True):  # whose roundings compute GELU, which has no row of its own then
            rows = roofline.estimate(roofline.BASE, [100, 200], roofline.GPUS[0], fp8=fp8).rows
            groups.update((kernel.name, kernels.group_of(kernel.name, 2)) for kernel, _ in rows)
        self.assertNotIn("other", groups.values())
        self.assertEqual(groups["GELU: backward"], "GELU: backward")
        self.assertEqual(groups["attention: forward"], "attention: forward")
        self.assertEqual(groups["feed-forward in: forward"], "matrix products")

    def test_table(self):
        measured = [(kernels.short_name(name), seconds, moved) for name, seconds, moved in kernels.parse(LOG.splitlines())]
        expected = [("AdamW", 1, 1e-3, 3e9), ("feed-forward in: forward", 2, 60e-6, 1e6), ("gradient norm", 1, 4e-5, 4e6)]
        lines = kernels.document("title", measured, expected, 3.35e12).splitlines()
        # AdamW is 1 ms too slow, at half the memory's rate; products take 10 us less than expected; no norm was seen.
        self.assertEqual(lines[4], "| AdamW | 1 | 1 | 2000 | 1000 | 2.00 | 3350 | 3000 | 50% |")
        self.assertEqual(lines[5], "| matrix products | 2 | 2 | 50 | 60 | 0.83 | 20 | 1 | 12% |")
        self.assertEqual(lines[6], "| gradient norm | 0 | 1 | 0 | 40 | 0.00 | 0 | 4 | – |")
        self.assertEqual(lines[7], "| all | 3 | 4 | 2050 | 1100 | 1.86 | 3370 | 3005 | 49% |")
        self.assertEqual(lines[11], "| update_ranges: update_pieces (bf16) | AdamW | 1 | 2000 | 2000.0 | 3350.0 | 50% |")
        self.assertEqual(lines[12], f"| {PRODUCT} | matrix products | 2 | 50 | 25.0 | 20.0 | 12% |")

    def test_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ncu.csv")
            with open(path, "w") as file:
                file.write(LOG)
            command = [sys.executable, os.path.join(HERE, "kernels.py"), path, "--case", "base_squad", "--step", "17"]
            done = subprocess.run([*command, "--gpu", "NVIDIA H200"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            case = next(case for case in cases.all_cases("cuda") if case["name"] == "base_squad")
            tokens = sum(case["lengths"][1])  # of 16 lists
            self.assertIn(f"base_squad, 32 sequences, {tokens} tokens, NVIDIA H200, beside the roofline's H200", done.stdout)
            device = roofline.estimate(roofline.BASE, case["lengths"][1], roofline.GPUS[1]).device
            self.assertIn("= 3 kernels, 2.05 ms; expected", done.stdout)
            self.assertTrue(done.stdout.endswith(f"{1e3 * device:.2f} ms\n"))
            with open(path, "w") as file:
                file.write("==PROF== nothing\n")
            self.assertEqual(subprocess.run(command, capture_output=True).returncode, 1)


if __name__ == "__main__":
    unittest.main()
