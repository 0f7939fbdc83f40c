#include "bert_hpc/io/trace.hpp"

#include <cstdio>

#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::io {

namespace {

/// A JSON string. Texts here are our own or valid UTF-8; only what would break the quotes is escaped.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      (result += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      result += escaped;
    } else {
      result += c;
    }
  }
  return result += '"';
}

std::string microseconds(double seconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", seconds * 1e6);
  return text;
}

std::string event_json(const TraceEvent& event) {
  std::string text = "{\"ph\":\"X\",\"name\":" + quoted(event.name) + ",\"cat\":" + quoted(event.category) +
                     ",\"pid\":" + std::to_string(event.rank) + ",\"tid\":0,\"ts\":" + microseconds(event.begin) +
                     ",\"dur\":" + microseconds(event.seconds);
  std::string arguments;
  const auto add = [&arguments](const char* name, std::int64_t value) {
    arguments += arguments.empty() ? "\"" : ",\"";
    ((arguments += name) += "\":") += std::to_string(value);
  };
  if (event.step >= 0) add("step", event.step);
  if (event.micro_batch >= 0) {
    add("micro_batch", event.micro_batch);
    add("virtual_stage", event.virtual_stage);
  }
  if (!arguments.empty()) text += ",\"args\":{" + arguments + '}';
  return text + '}';
}

}  // namespace

std::string trace_json(const Trace& trace) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"otherData\":{";
  for (std::size_t i = 0; i < trace.facts.size(); ++i) {
    text += i > 0 ? "," : "";
    text += quoted(trace.facts[i].first) + ':' + quoted(trace.facts[i].second);
  }
  text += "},\"traceEvents\":[";
  const char* separator = "\n";
  const auto add = [&](const std::string& event) {
    (text += separator) += event;
    separator = ",\n";
  };
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    if (trace.ranks[rank].empty()) continue;
    const std::string number = std::to_string(rank);
    add("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" + number +
        ",\"tid\":0,\"args\":{\"name\":" + quoted(trace.ranks[rank]) + "}}");
    add("{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":" + number +
        ",\"tid\":0,\"args\":{\"sort_index\":" + number + "}}");
  }
  for (const TraceEvent& event : trace.events) add(event_json(event));
  return text + "\n]}\n";
}

void write_trace(const std::string& path, const Trace& trace) {
  write_text_file(path, trace_json(trace));
}

}  // namespace bert_hpc::io
