// Counts of classes and the figures that follow from them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bert_hpc::metrics {

/// Counts of a data set: how often each class is the label, is predicted, and is both. If a sample may have several
/// labels, a class is a label name.
struct ClassCounts {
  std::span<const double> actual, predicted, hits;  ///< (classes)
};

/// Values of each class, (classes); 0 if the denominator is 0, as in scikit-learn's classification_report with
/// zero_division = 0. The support is `actual`.
std::vector<double> class_precision(const ClassCounts& counts);
std::vector<double> class_recall(const ClassCounts& counts);
std::vector<double> class_f1(const ClassCounts& counts);

/// With more classes than this, evaluations record no figures of single classes: such a table is too long to be read.
/// At this limit it takes 320 kB of metrics.h5 per evaluation, 4% of the largest confusion matrix.
inline constexpr std::int64_t max_reported_classes = 10000;

/// For data with one label a sample: averages over the classes that occur, as actual or as predicted, as scikit-learn's
/// with zero_division = 0.
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
/// Matthews' correlation coefficient of any number of classes (Gorodkin 2004), in [-1, 1]; 0 if all labels or all
/// predictions are one class.
double matthews_correlation(const ClassCounts& counts);

/// With more classes than this there are counts per class and no confusion matrix, as its memory grows with the square
/// (50,000 classes: 20 GB).
inline constexpr std::int64_t max_confusion_classes = 1000;

}  // namespace bert_hpc::metrics
