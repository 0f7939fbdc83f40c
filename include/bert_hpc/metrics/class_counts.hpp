// Counts of classes and the figures that follow from them.
#pragma once

#include <cstdint>
#include <span>

namespace bert_hpc::metrics {

/// Of a data set with one label a sample: how often each class is the label, is predicted, and is both.
struct ClassCounts {
  std::span<const double> actual, predicted, hits;  ///< (classes)
};

/// Averages over the classes that occur, as actual or as predicted, as scikit-learn's with zero_division = 0.
double accuracy(const ClassCounts& counts);
double macro_precision(const ClassCounts& counts);
double macro_recall(const ClassCounts& counts);
double macro_f1(const ClassCounts& counts);
/// The mean F1 of the classes, each weighted by how often it is a label.
double weighted_f1(const ClassCounts& counts);
/// F1 of all decisions together: with one label a sample this is the accuracy.
double micro_f1(const ClassCounts& counts);
/// F1 of class 1 of two classes; NaN of any other number.
double positive_f1(const ClassCounts& counts);
/// Matthews' correlation coefficient of any number of classes (Gorodkin 2004), in [-1, 1]; 0 where all labels or all
/// predictions are one class.
double matthews_correlation(const ClassCounts& counts);

/// With more classes than this there are counts per class and no confusion matrix, as its memory grows with the square
/// (50,000 classes: 20 GB).
inline constexpr std::int64_t max_confusion_classes = 1000;

}  // namespace bert_hpc::metrics
