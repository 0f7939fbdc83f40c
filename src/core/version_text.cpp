#include "bert_hpc/core/version.hpp"

namespace bert_hpc::core {

std::string version_text(std::string_view program, const VersionFacts& facts) {
  std::string text(program);
  ((text += ' ') += version()) += " (source revision ";
  (text += revision()) += ")\n";
  const auto line = [&text](std::string_view name, std::string_view value) {
    constexpr std::size_t width = 14;
    if (value.empty()) return;
    (text += "  ") += name;
    text.append(name.size() < width ? width - name.size() : 1, ' ');
    (text += value) += '\n';
  };
  line("build", build_kind());
  for (const auto& [name, value] : facts) line(name, value);
  return text;
}

}  // namespace bert_hpc::core
