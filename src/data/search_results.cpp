#include "bert_hpc/data/search_results.hpp"

#include <iterator>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::data {

SearchResults read_search_results(const std::string& path) {
  using core::ExitCode;
  const auto fail = [&path](const std::string& what) { throw core::Error(ExitCode::data, path + ": " + what); };
  const io::Hdf5File file = io::Hdf5File::open_read(path, ExitCode::data);
  const std::string schema =
      file.has_attribute("/", search_names::schema) ? file.text_attribute("/", search_names::schema) : "none";
  if (schema != search_names::schema_value) {
    fail("it is no search.h5 of mode \"search\" of this version (its schema is \"" + core::printable(schema) + "\").");
  }
  SearchResults found{.query_data = file.text_attribute("/", search_names::query_data),
                      .corpus_data = file.text_attribute("/", search_names::corpus_data)};
  constexpr std::int64_t most = std::int64_t{1} << 40;
  found.queries = file.read<std::int64_t>(search_names::queries, most);
  found.neighbours = file.read<std::int64_t>(search_names::neighbours, most);
  found.scores = file.read<float>(search_names::scores, most);
  found.own_scores = file.read<float>(search_names::own_scores, most);
  const std::size_t queries = found.queries.size();
  found.k = queries == 0 ? 0 : std::ssize(found.neighbours) / static_cast<std::int64_t>(queries);
  const bool fits = found.neighbours.size() == static_cast<std::size_t>(found.k) * queries &&
                    found.scores.size() == found.neighbours.size() && found.own_scores.size() == queries;
  if (!fits) fail("its datasets do not fit each other.");
  return found;
}

}  // namespace bert_hpc::data
