#include "app/engine/search_sets.hpp"

#include <limits>
#include <set>

#include "app/run/collective.hpp"
#include "app/run/reading_ranks.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {
namespace {

using core::Error;
using core::ExitCode;

void require_pooled(const EmbeddedSet& set) {
  const data::ShardReader& reader = *set.reader;
  const std::string& file = reader.files().front();
  if (!reader.has_embeddings()) {
    throw Error(ExitCode::data, file + ": it holds token ids, and [search] " + set.key +
                                    " names embeddings: embed the shards with run.mode = \"embed\" first.");
  }
  if (reader.info().tokens == reader.samples()) return;
  throw Error(ExitCode::data, file +
                                  ": it holds embeddings of tokens, and a search compares those of texts: embed "
                                  "the shards with [embed] pooling = \"mean\", \"cls\", \"max\" or \"last\".");
}

/// Queries and documents are embeddings of one model; the type in which they are stored does not matter.
void require_comparable(const data::ShardReader& queries, const data::ShardReader& corpus) {
  const data::ShardInfo &ours = queries.info(), &theirs = corpus.info();
  if (ours.columns == theirs.columns && ours.embedded == theirs.embedded) return;
  const auto text = [](const data::ShardInfo& info) {
    return core::counted(info.columns, "column") + ", " + core::printable(info.embedded);
  };
  throw Error(ExitCode::data, corpus.files().front() + ": its embeddings (" + text(theirs) +
                                  ") cannot be compared with "
                                  "those of '" +
                                  queries.files().front() + "' (" + text(ours) +
                                  "): embed queries and corpus with one model and the same [embed] settings.");
}

/// On rank 0: the task of the embedded shards, and the names of rows.
std::string read_texts(EmbeddedSet& set) {
  std::string task;
  std::set<std::string> hashes;
  bool has_names = true;
  for (const std::string& file : set.reader->files()) {
    const data::EmbeddedTexts texts = data::read_embedded_texts(file);
    task = texts.task;
    hashes.insert(texts.data_hash);
    has_names = has_names && texts.names.count() > 0;
    for (std::int64_t i = 0; has_names && i < texts.names.count(); ++i) set.names.add(texts.names[i]);
  }
  if (!has_names) set.names = {};
  set.data_hash = hashes.size() == 1 ? *hashes.begin() : "several";
  return task;
}

/// Collective. Opens and checks a data set.
EmbeddedSet open_set(comm::Communicator& world, const std::string& key, const std::vector<std::string>& paths,
                     std::mutex& hdf5) {
  EmbeddedSet set{.key = key};
  collectively(world, [&] {
    data::ShardReaderOptions options;
    options.name = "search." + key;
    options.paths = paths;
    options.limits.task = tasks::find("masked_lm");  // needs no labels: embeddings of shards of any task serve
    options.limits.labels = false;
    options.source_index = true;
    options.hdf5_mutex = &hdf5;
    options.ranks = reading_ranks(world, true);
    set.reader = std::make_unique<data::ShardReader>(options);
  });
  std::string task;
  collectively(world, [&] {
    require_pooled(set);
    if (world.rank() == 0) task = read_texts(set);
  });
  task = world.broadcast(task, 0);
  collectively(world, [&] {
    const tasks::Task* const known = tasks::find(task);
    set.roles =
        text_roles(set.reader->source_index(), known != nullptr && known->has_text_rows(), set.reader->files().front());
  });
  return set;
}

}  // namespace

void open_sets(const config::Search& search, comm::Communicator& world, SearchSets& sets) {
  sets.queries = open_set(world, "queries", search.queries, sets.hdf5);
  const bool has_corpus = !search.corpus.empty() && search.corpus != search.queries;
  if (has_corpus) sets.other = open_set(world, "corpus", search.corpus, sets.hdf5);
  collectively(world, [&] {
    if (sets.other) require_comparable(*sets.queries.reader, *sets.other->reader);
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (std::ssize(sets.corpus().roles.documents) <= most) return;
    throw Error(ExitCode::data, "[search] corpus has more documents than a run can number (" + core::with_commas(most) +
                                    "): search parts of it.");
  });
}

NamedTexts named(const EmbeddedSet& set, const std::vector<std::int64_t>& sequences) {
  return {.count = std::ssize(sequences), .name = [&set, &sequences](std::int64_t number) {
            return text_name(set.names, set.reader->source_index(), sequences[static_cast<std::size_t>(number)]);
          }};
}

}  // namespace bert_hpc::app
