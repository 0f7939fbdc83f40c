#include "app/report/search_file.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/search_results.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::app {

void write_search_file(const std::string& path, const SearchFacts& facts, std::span<const std::int64_t> queries,
                       std::span<const std::int64_t> documents, const FoundDocuments& found,
                       std::span<const float> own_scores) {
  namespace names = data::search_names;
  std::vector<std::int64_t> sequences;
  sequences.reserve(found.numbers.size());
  for (const std::int32_t number : found.numbers) {
    sequences.push_back(number < 0 ? -1 : documents[static_cast<std::size_t>(number)]);
  }
  const std::int64_t rows = std::ssize(queries), columns = rows == 0 ? 0 : std::ssize(sequences) / rows;
  io::Hdf5File file = io::Hdf5File::create(io::name_beside(path), core::ExitCode::files);
  file.write_attribute("/", names::schema, names::schema_value);
  file.write_attribute("/", names::similarity, facts.similarity);
  file.write_attribute("/", names::query_data, facts.query_data);
  file.write_attribute("/", names::corpus_data, facts.corpus_data);
  file.write(names::queries, queries);
  file.write(names::neighbours, sequences, {rows, columns});
  file.write(names::scores, found.scores, {rows, columns});
  file.write(names::own_scores, own_scores);
  file.close();
  io::publish(path);
}

}  // namespace bert_hpc::app
