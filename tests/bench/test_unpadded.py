"""The unpadded BERT of the PyTorch benchmark has the loss and the gradients of the padded one."""

import unittest

import torch
import transformers

import unpadded


class Unpadded(unittest.TestCase):
    def test_loss_and_gradients_are_those_of_padded_batches(self):
        torch.manual_seed(1)
        config = transformers.BertConfig(
            vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
            max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=3,
            attn_implementation="sdpa",
        )
        model = transformers.BertForSequenceClassification(config).train()
        ids, labels = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14, 15, 16, 17, 18]], [0, 2, 1]
        width = max(map(len, ids))
        padded = torch.tensor([sequence + [0] * (width - len(sequence)) for sequence in ids])
        mask = torch.tensor([[1] * len(sequence) + [0] * (width - len(sequence)) for sequence in ids])
        expected = model(input_ids=padded, attention_mask=mask, labels=torch.tensor(labels)).loss
        expected.backward()
        gradients = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()
        name, attend = unpadded.choose_attention("cpu", torch.float32)
        found = unpadded.loss(model, attend, unpadded.packed(ids, labels, "cpu"))
        found.backward()
        # In fp32 both sum a few dozen numbers of order 1, in another order.
        self.assertAlmostEqual(found.item(), expected.item(), delta=1e-5, msg=name)
        for (parameter_name, parameter), gradient in zip(model.named_parameters(), gradients):
            self.assertLess((parameter.grad - gradient).abs().max().item(), 1e-5, parameter_name)


if __name__ == "__main__":
    unittest.main()
