"""Prints the metrics of tests/unit/metrics/test_label_sets.cpp as scikit-learn computes them, of the same labels and outputs.
Needs numpy and scikit-learn (made with 1.9)."""

import numpy as np
from sklearn.metrics import accuracy_score, f1_score, label_ranking_average_precision_score, roc_auc_score

SAMPLES, NAMES = 200, 5

numbers = np.arange(SAMPLES * NAMES)
labels = (numbers * 37 % 101 < 30).astype(int)
outputs = 0.25 * (numbers * 53 % 97 % 40 - 25) + 2.0 * labels
labels, outputs = labels.reshape(SAMPLES, NAMES), outputs.reshape(SAMPLES, NAMES)
predicted = (outputs >= 0).astype(int)

print("micro_f1", repr(float(f1_score(labels, predicted, average="micro", zero_division=0))))
print("macro_f1", repr(float(f1_score(labels, predicted, average="macro", zero_division=0))))
print("exact_match", repr(float(accuracy_score(labels, predicted))))
print("macro_roc_auc", repr(float(roc_auc_score(labels, outputs, average="macro"))))
print("lrap", repr(float(label_ranking_average_precision_score(labels, outputs))))
