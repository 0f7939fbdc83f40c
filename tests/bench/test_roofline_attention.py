"""Attention's roofline against sums done by hand."""

import unittest

import roofline_attention as roofline
from roofline_attention import CHIPS

REPORT = """\
ptxas info    : Compiling entry function '_ZN8bert_hpc3ops4cuda24attention_forward_kernelINS_4core4Bf16ELi64EEEvNS1_13AttentionCallIT_EE' for 'sm_80'
ptxas info    : Function properties for _ZN8bert_hpc3ops4cuda24attention_forward_kernelINS_4core4Bf16ELi64EEEvNS1_13AttentionCallIT_EE
    0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 250 registers, used 1 barriers, 784 bytes cmem[0]
"""


class Attention(unittest.TestCase):
    def test_a_pair_by_hand(self):
        forward, keys, queries = roofline.kernels(64)
        self.assertEqual([k.operations for k in (forward, keys, queries)], [4 * 64, 8 * 64, 6 * 64])
        # A warp reads a tile's row of 128 bytes twice for its 32 queries.
        self.assertEqual(forward.operand_bytes, 2 * 128 / 32)
        self.assertEqual(forward.shared_bytes, (128 + 2 * 64) * 64 * 2)
        self.assertEqual(keys.shared_bytes, (2 * 128 + 4 * 32) * 64 * 2 + 6 * 4 * 32)

    def test_whole_tiles_are_computed(self):
        forward = roofline.kernels(64)[0]
        self.assertEqual(roofline.pairs_computed(forward, [17, 64]), 32 * 64 + 64 * 64)

    def test_dropout_costs_and_longer_sequences_run_faster(self):
        for chip in CHIPS:
            short, long = (roofline.both_ways(64, chip, [s] * (16384 // s), 12, False) for s in (32, 512))
            dropped = roofline.both_ways(64, chip, [512] * 32, 12, True)
            for i in range(2):
                self.assertGreater(long[i][2], short[i][2])
                self.assertGreater(dropped[i][1], long[i][1])
                self.assertLess(long[i][2], 1e-12 * chip.tensor * chip.processors * chip.clock)

    def test_ptxas_report(self):
        self.assertEqual(roofline.registers(REPORT), {("forward", 64): ("sm_80", 250, 12)})

    def test_document_has_a_line_for_every_kernel(self):
        text = roofline.document([roofline.registers(REPORT)])
        self.assertIn("sm_80: 250 + 12", text)
        self.assertEqual(text.count("| backward: keys |"), 3)


if __name__ == "__main__":
    unittest.main()
