// All metrics of this program.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "bert_hpc/metrics/metric.hpp"

namespace bert_hpc::metrics {

const Family& answers();             ///< answers to questions: exact, f1
const Family& batch_ranks();         ///< embeddings of texts without scores: accuracy, mrr, mrr_at_10, …
const Family& binary_ranking();      ///< two classes: roc_auc
const Family& calibration();         ///< one class of several: ece
const Family& class_neighbours();    ///< embeddings of texts with classes: precision_at_1, r_precision, map_at_r
const Family& class_counts();        ///< one class of several: accuracy, precision, recall, f1, mcc, …
const Family& entities();            ///< tagged words: entity_precision, entity_recall, entity_f1
const Family& label_sets();          ///< sets of label names: micro_f1, macro_f1, exact_match, macro_roc_auc, lrap
const Family& pretraining_counts();  ///< masked tokens and pairs: accuracy, perplexity, pair_accuracy, pair_loss
const Family& rankings();            ///< candidates of queries: map, mrr, mrr_at_10, ndcg_at_10, f1, …
const Family& text_similarity();     ///< embeddings of texts with scores: pearson, spearman
const Family& text_triplets();       ///< embeddings of texts with negatives: triplet_accuracy
const Family& token_counts();        ///< masked tokens: accuracy, perplexity
const Family& value_levels();        ///< numbers that count as the nearest of some levels: accuracy, qwk, macro_mae
const Family& value_statistics();    ///< numbers: rmse, mae, r2, pearson, spearman, concordance

/// The loss, or a metric of any family; null if there is none of that name.
const Metric* find_metric(std::string_view name);

/// The metric of this name in an evaluation that has all of `names`, or find_metric(name): families share some names.
const Metric* find_metric(std::string_view name, const std::set<std::string>& names);

/// A metric of these families; null if there is none of that name.
const Metric* find_metric(std::string_view name, const std::vector<const Family*>& families);

/// Whether larger values of a metric are better; true for other names.
bool larger_is_better(std::string_view name);
/// "loss" and the names of the families' metrics; of those that a model can be selected by.
std::vector<std::string> names_of(const std::vector<const Family*>& families);
std::vector<std::string> goals_of(const std::vector<const Family*>& families);

}  // namespace bert_hpc::metrics
