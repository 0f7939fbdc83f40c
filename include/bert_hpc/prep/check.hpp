// The input of bert_hpc_prep beside the files that it names: what they complete, and what is checked before the work.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::prep {

/// The input, completed by settle(), find_sentences(), find_labels() and find_label_names(). Throws one Error with all
/// that is wrong with its keys and, where something is, with the files that it names, as far as the one does not follow
/// from the other.
PrepConfig given_config(const std::string& path, const std::vector<std::string>& overrides);

/// Completes the input by what files say: patterns in [source] become the files that they match (what matches nothing
/// stays, and check_files() reports it), and [tokenizer] lowercase, where it is not given, is the vocabulary's own.
/// Throws Error(files) if a file that says so cannot be read.
void settle(PrepConfig& config);

/// If the input names no label column and all rows are for the test split, text without a column "label" has no
/// labels and is prepared to be predicted. `config` is settled. Looks at the first row of each file. Throws nothing:
/// check_files() reports what cannot be read.
void find_labels(PrepConfig& config);

/// Tables of token_classification that all have Kaggle's column "Sentence #" have a word a row: it becomes [source]
/// sentence if the input names none. Otherwise as find_labels().
void find_sentences(PrepConfig& config);

/// If the input lists no label names, and all files have the same names for the numbers in the label's column, these
/// become [task] labels, so that the numbers of the labels are those of the files. Otherwise as find_labels().
void find_label_names(PrepConfig& config);

/// What can be checked without reading the text: files open and are there once, columns exist, the vocabulary loads,
/// the directory can be written. prepare() begins with it. Throws one Error with all problems, and the code of the
/// first. Returns warnings.
std::vector<std::string> check_files(const PrepConfig& config);

/// check_files(), keeping the tokenizer of [tokenizer] vocabulary; null if a vocabulary is to be trained.
std::unique_ptr<tokenize::Tokenizer> checked_tokenizer(const PrepConfig& config);

/// Warnings on the vocabulary: its files contradict each other, it seems to be for cased text and neither the input nor
/// its folder says so, or the model beside it takes fewer tokens than max_tokens.
std::vector<std::string> doubts(const PrepConfig& config, const tokenize::Tokenizer& tokenizer);

/// Lines about files whose byte order mark names another encoding than the input does, or which seem to be UTF-8 though
/// it names another one.
std::vector<std::string> marked_files(const PrepConfig& config);

}  // namespace bert_hpc::prep
