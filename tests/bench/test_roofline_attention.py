"""Attention's roofline against sums done by hand."""

import unittest

import roofline_attention as roofline
from roofline_attention import CHIPS

REPORT = """\
ptxas info    : Compiling entry function '_ZN8bert_hpc3ops4cuda24attention_forward_kernelINS_4core4Bf16ELi64ELb1EEEvNS1_13AttentionCallIT_EE' for 'sm_80'
ptxas info    : Function properties for _ZN8bert_hpc3ops4cuda24attention_forward_kernelINS_4core4Bf16ELi64ELb1EEEvNS1_13AttentionCallIT_EE
    0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 250 registers, used 1 barriers, 784 bytes cmem[0]
ptxas info    : Compiling entry function '_ZN8bert_hpc3ops4cuda34attention_backward_sequence_kernelINS_4core4Bf16ELi64ENS1_13SequenceShapeILi64ELi8ELi32EEEEEvNS1_13AttentionCallIT_EE' for 'sm_90'
ptxas info    : Function properties for _ZN8bert_hpc3ops4cuda34attention_backward_sequence_kernelINS_4core4Bf16ELi64ENS1_13SequenceShapeILi64ELi8ELi32EEEEEvNS1_13AttentionCallIT_EE
    0 bytes stack frame, 1 bytes spill stores, 2 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 784 bytes cmem[0]
"""


class Attention(unittest.TestCase):
    def test_a_pair_by_hand(self):
        forward, (keys, queries) = roofline.forward_kernel(64), roofline.split_kernels(64)
        self.assertEqual([k.operations for k in (forward, keys, queries)], [4 * 64, 8 * 64, 6 * 64])
        # A warp reads a tile's row of 128 bytes twice for its 32 queries.
        self.assertEqual(forward.operand_bytes, 2 * 128 / 32)
        self.assertEqual(forward.shared_bytes, (128 + 2 * 64) * 64 * 2)
        self.assertEqual(keys.shared_bytes, (2 * 128 + 4 * 32) * 64 * 2 + 4 * 4 * 32)

    def test_a_pair_of_a_sequence_by_hand(self):
        four, = (k for k in roofline.sequence_kernels(64, 128) if k.name == "sequence, 4 warps")
        # Keys, values, queries and gradients of 128 bytes a row, ds of 2 bytes a pair, two numbers a query.
        self.assertEqual(four.shared_bytes, (2 * 128 + 2 * 64) * 128 + 2 * 128 * 64 + 8 * 128)
        # Four products and two left operands by 32 rows, ds written, and for d_q 32 rows and 32 columns a warp of 64 queries.
        self.assertEqual(four.operand_bytes, 4 * 4 + 2 * 4 + 2 + 4 * 2 * (32 + 32) / 64)
        small = roofline.sequence_kernels(64, 512)[-1]
        self.assertEqual(small.shared_bytes, (2 * 256 + 2 * 32) * 128 + 2 * 256 * 32 + 512 * (8 + 4 * 64))
        self.assertEqual(small.operations, 10 * 64)

    def test_a_pair_of_floats_by_hand(self):
        forward, keys, _ = roofline.float_kernels("fp32", 64)
        # Three TF32 products at half the rate. A warp reads rows of 256 bytes twice for 16 queries, and these once for 64 keys.
        self.assertEqual(forward.operations, 6 * 4 * 64)
        self.assertEqual(forward.operand_bytes, 2 * 256 / 16 + 256 / 64)
        self.assertEqual(forward.shared_bytes, (64 + 2 * 64) * 256)
        self.assertEqual(keys.shared_bytes, (2 * 64 + 4 * 32) * 256 + 4 * 4 * 32)
        self.assertEqual(roofline.float_kernels("tf32", 64)[0].operations, 2 * 4 * 64)

    def test_the_backward_kernel_is_the_one_that_fits(self):
        h100, a100 = CHIPS
        names = [[k.name for k in roofline.backward_kernels(64, chip, length)] for chip, length in
                 ((h100, 128), (h100, 384), (h100, 512), (a100, 256))]
        self.assertEqual(names, [["sequence, 4 warps"], ["sequence, 8 warps"], ["sequence, 8 warps, small"], ["sequence, 8 warps"]])
        for head_dim, chip, length in ((64, h100, 513), (64, a100, 384), (128, h100, 64)):
            self.assertEqual(len(roofline.backward_kernels(head_dim, chip, length)), 2)

    def test_whole_tiles_are_computed(self):
        self.assertEqual(roofline.pairs_computed(roofline.forward_kernel(64), [17, 64]), 32 * 64 + 64 * 64)
        self.assertEqual(roofline.pairs_computed(roofline.sequence_kernels(64, 128)[0], [17, 70]), 32 * 32 + 96 * 96)

    def test_tiles_outside_a_mask_are_skipped(self):
        forward, (_, queries) = roofline.forward_kernel(64), roofline.split_kernels(64)
        small = roofline.sequence_kernels(64, 512)[-1]
        # 32 queries meet the tiles of 64 keys up to their own: twice 1, 2, … 8 of 8. 32 keys meet 16, 15, … 1 tiles of 32 queries.
        self.assertEqual(roofline.pairs_computed(forward, [512], roofline.CAUSAL), 2 * 36 * 32 * 64)
        self.assertEqual(roofline.pairs_computed(small, [512], roofline.CAUSAL), 136 * 32 * 32)
        # Blocks of 128 queries meet 2, 4, 6, 8 tiles; blocks of 256 keys 16 and 8.
        self.assertEqual(roofline.pairs_computed(forward, [512], roofline.CAUSAL, True), 20 * 128 * 64)
        self.assertEqual(roofline.pairs_computed(small, [512], roofline.CAUSAL, True), 24 * 256 * 32)
        # 32 queries and 32 keys on each side: three tiles of 32, two at both ends.
        self.assertEqual(roofline.pairs_computed(queries, [512], roofline.window(64)), (3 * 16 - 2) * 32 * 32)
        for kernel in (forward, queries, small):
            wide = roofline.Mask("wide", 600, 600)
            self.assertEqual(roofline.pairs_computed(kernel, [512, 17], wide), roofline.pairs_computed(kernel, [512, 17]))

    def test_a_window_has_the_split_kernels(self):
        h100 = CHIPS[0]
        self.assertEqual(len(roofline.backward_kernels(64, h100, 512, roofline.CAUSAL)), 1)
        self.assertEqual(len(roofline.backward_kernels(64, h100, 512, roofline.window(128))), 2)

    def test_dropout_costs_and_longer_sequences_run_faster(self):
        for chip in CHIPS:
            short, long = (roofline.ways(64, chip, [s] * (16384 // s), 12, False) for s in (32, 512))
            dropped = roofline.ways(64, chip, [512] * 32, 12, True)
            for i in range(3):
                self.assertGreater(long[i][1], short[i][1])
                self.assertLess(long[i][1], 1e-12 * chip.tensor * chip.processors * chip.clock)
            self.assertGreater(dropped[0][0], long[0][0])

    def test_ptxas_report(self):
        floats = REPORT.replace("4core4Bf16", "9SplitFp32")
        self.assertEqual(roofline.registers(floats)["fp32, forward", 64], ("sm_80", 250, 12))
        self.assertEqual(roofline.registers(REPORT), {("forward", 64): ("sm_80", 250, 12),
                                                      ("sequence, 8 warps, small", 64): ("sm_90", 255, 3)})

    def test_document_has_a_line_for_every_kernel(self):
        text = roofline.document([roofline.registers(REPORT)])
        self.assertIn("sm_80: 250 + 12", text)
        self.assertEqual(text.count("| split: keys |"), 3)
        self.assertEqual(text.count("| tf32, split: keys |"), 3)
        self.assertIn("| sequence, 8 warps, small | 64 | 256 | 32 | 220.0 | sm_90: 255 + 3 |", text)


if __name__ == "__main__":
    unittest.main()
