// The journal's lines: how records are spelled, and what they do to the tables.
#include "metrics_tables.hpp"

#include <array>
#include <charconv>
#include <optional>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::io::detail {

namespace {

constexpr std::array<const char*, 4> status_names = {"running", "finished", "failed", "stopped"};

/// Builds a line.
class Line {
 public:
  explicit Line(const char* kind) : text_(kind) {}

  Line& operator<<(const std::string& field) {
    text_ += '\t';
    for (const char c : field) {
      switch (c) {
        case '\t':
          text_ += "\\t";
          break;
        case '\n':
          text_ += "\\n";
          break;
        case '\\':
          text_ += "\\\\";
          break;
        default:
          text_ += c;
      }
    }
    return *this;
  }
  // The shortest digits that read back as the same number.
  Line& operator<<(double field) { return number(field); }
  Line& operator<<(std::int64_t field) { return number(field); }
  Line& operator<<(std::size_t field) { return number(field); }

  std::string take() { return std::move(text_); }

 private:
  template <class T>
  Line& number(T field) {
    char digits[40];
    const auto result = std::to_chars(digits, digits + sizeof digits, field);
    text_ += '\t';
    text_.append(digits, result.ptr);
    return *this;
  }
  std::string text_;
};

struct Nonsense {};  ///< thrown inside apply() alone

/// Takes a line apart; throws Nonsense where a field is missing or is no number.
class Fields {
 public:
  explicit Fields(std::string_view line) : rest_(line) {}

  bool done() const { return finished_; }
  std::string_view raw() {
    if (finished_) throw Nonsense{};
    const std::size_t end = rest_.find('\t');
    const std::string_view field = rest_.substr(0, end);
    finished_ = end == std::string_view::npos;
    if (!finished_) rest_.remove_prefix(end + 1);
    return field;
  }
  std::string text() {
    std::string field;
    const std::string_view escaped = raw();
    for (std::size_t i = 0; i < escaped.size(); ++i) {
      if (escaped[i] != '\\') {
        field += escaped[i];
        continue;
      }
      if (++i == escaped.size()) throw Nonsense{};
      field += escaped[i] == 't' ? '\t' : escaped[i] == 'n' ? '\n' : '\\';
    }
    return field;
  }
  std::int64_t integer() { return number<std::int64_t>(); }
  double real() { return number<double>(); }
  /// A count of things that follow: no more than the line has characters.
  std::size_t count() {
    const std::int64_t value = integer();
    if (value < 0 || static_cast<std::size_t>(value) > rest_.size()) throw Nonsense{};
    return static_cast<std::size_t>(value);
  }

 private:
  template <class T>
  T number() {
    const std::string_view field = raw();
    T value{};
    const auto [end, problem] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (problem != std::errc{} || end != field.data() + field.size()) throw Nonsense{};
    return value;
  }
  std::string_view rest_;
  bool finished_ = false;
};

RunInfo read_info(Fields& fields) {
  RunInfo info;
  info.version = fields.text();
  info.source_revision = fields.text();
  info.started = fields.text();
  info.mode = fields.text();
  info.task = fields.text();
  info.resolved_input = fields.text();
  for (std::size_t left = fields.count(); left > 0; --left) info.label_names.push_back(fields.text());
  for (std::size_t left = fields.count(); left > 0; --left) {
    std::string name = fields.text();
    info.provenance.emplace_back(std::move(name), fields.text());
  }
  return info;
}

StepRow read_step(Fields& fields) {
  StepRow row;
  row.step = fields.integer();
  row.epoch = fields.real();
  row.loss = fields.real();
  row.learning_rate = fields.real();
  row.gradient_norm = fields.real();
  row.samples = fields.integer();
  row.tokens = fields.integer();
  row.seconds = fields.real();
  return row;
}

EvaluationRow read_evaluation(Fields& fields) {
  EvaluationRow row;
  row.step = fields.integer();
  row.loss = fields.real();
  for (std::size_t left = fields.count(); left > 0; --left) {
    std::string name = fields.text();
    row.metrics.emplace_back(std::move(name), fields.real());
  }
  row.classes = static_cast<std::int64_t>(fields.count());
  for (std::int64_t left = row.classes * row.classes; left > 0; --left) {
    row.confusion_matrix.push_back(fields.integer());
  }
  return row;
}

std::vector<TimerRow> read_timers(Fields& fields) {
  std::vector<TimerRow> rows(fields.count());
  for (TimerRow& row : rows) {
    row.name = fields.text();
    row.calls = fields.integer();
    row.seconds_min = fields.real();
    row.seconds_avg = fields.real();
    row.seconds_max = fields.real();
  }
  return rows;
}

std::vector<RankRow> read_ranks(Fields& fields) {
  std::vector<RankRow> rows(fields.count());
  for (RankRow& row : rows) {
    row.host = fields.text();
    row.device = fields.text();
    row.threads = fields.integer();
    row.peak_memory = fields.integer();
    row.utilisation = fields.real();
    row.power = fields.real();
  }
  return rows;
}

RankSample read_rank_sample(Fields& fields) {
  RankSample sample;
  sample.seconds = fields.real();
  const std::size_t ranks = fields.count();
  for (std::size_t i = 0; i < ranks; ++i) sample.utilisation.push_back(fields.real());
  for (std::size_t i = 0; i < ranks; ++i) sample.power.push_back(fields.real());
  return sample;
}

template <class Row>
void forget_after(std::vector<Row>& rows, std::int64_t step) {
  std::erase_if(rows, [step](const Row& row) { return row.step > step; });
}

/// The first start's time stays; everything else is the latest start's.
void set_info(MetricsTables& tables, RunInfo info) {
  if (!tables.info.started.empty()) {
    tables.restarts.push_back(info.started);
    info.started = tables.info.started;
  }
  tables.info = std::move(info);
  tables.status = status_names[0];
}

void apply_fields(MetricsTables& tables, std::string_view kind, Fields& fields) {
  if (kind == "step") {
    tables.steps.push_back(read_step(fields));
  } else if (kind == "evaluation") {
    const std::string split = fields.text();
    EvaluationRow row = read_evaluation(fields);
    tables.evaluations[split].push_back(std::move(row));
  } else if (kind == "efficiency") {
    EfficiencyRow row;
    row.step = fields.integer();
    row.noise_scale = fields.real();
    row.efficiency = fields.real();
    row.goodput = fields.real();
    tables.efficiency.push_back(row);
  } else if (kind == "rank_sample") {
    tables.rank_samples.push_back(read_rank_sample(fields));
  } else if (kind == "timers") {
    tables.timers = read_timers(fields);
  } else if (kind == "ranks") {
    tables.ranks = read_ranks(fields);
  } else if (kind == "status") {
    tables.status = fields.text();
  } else if (kind == "total") {
    const std::string name = fields.text();
    tables.totals[name] = fields.real();
  } else if (kind == "info") {
    set_info(tables, read_info(fields));
  } else if (kind == "rewind") {
    const std::int64_t step = fields.integer();
    forget_after(tables.steps, step);
    forget_after(tables.efficiency, step);
    for (auto& [split, rows] : tables.evaluations) forget_after(rows, step);
  } else {
    throw Nonsense{};
  }
}

}  // namespace

std::string encode(const RunInfo& info) {
  Line line("info");
  line << info.version << info.source_revision << info.started << info.mode << info.task << info.resolved_input;
  line << info.label_names.size();
  for (const std::string& name : info.label_names) line << name;
  line << info.provenance.size();
  for (const auto& [name, value] : info.provenance) line << name << value;
  return line.take();
}

std::string encode(const StepRow& row) {
  Line line("step");
  line << row.step << row.epoch << row.loss << row.learning_rate << row.gradient_norm << row.samples << row.tokens
       << row.seconds;
  return line.take();
}

std::string encode(const std::string& split, const EvaluationRow& row) {
  core::require(static_cast<std::int64_t>(row.confusion_matrix.size()) == row.classes * row.classes,
                "confusion matrix that is not (classes, classes)");
  Line line("evaluation");
  line << split << row.step << row.loss << row.metrics.size();
  for (const auto& [name, value] : row.metrics) line << name << value;
  line << row.classes;
  for (const std::int64_t count : row.confusion_matrix) line << count;
  return line.take();
}

std::string encode(const EfficiencyRow& row) {
  Line line("efficiency");
  line << row.step << row.noise_scale << row.efficiency << row.goodput;
  return line.take();
}

std::string encode(const std::vector<TimerRow>& rows) {
  Line line("timers");
  line << rows.size();
  for (const TimerRow& row : rows)
    line << row.name << row.calls << row.seconds_min << row.seconds_avg << row.seconds_max;
  return line.take();
}

std::string encode(const std::vector<RankRow>& rows) {
  Line line("ranks");
  line << rows.size();
  for (const RankRow& row : rows) {
    line << row.host << row.device << row.threads << row.peak_memory << row.utilisation << row.power;
  }
  return line.take();
}

std::string encode_rank_sample(double seconds, const std::vector<double>& utilisation,
                               const std::vector<double>& power) {
  core::require(utilisation.size() == power.size(), "utilisation and power of different numbers of ranks");
  Line line("rank_sample");
  line << seconds << utilisation.size();
  for (const double value : utilisation) line << value;
  for (const double value : power) line << value;
  return line.take();
}

std::string encode_status(RunStatus status) {
  Line line("status");
  line << std::string(status_names[static_cast<std::size_t>(status)]);
  return line.take();
}

std::string encode_total(const std::string& name, double value) {
  Line line("total");
  line << name << value;
  return line.take();
}

std::string encode_rewind(std::int64_t step) {
  Line line("rewind");
  line << step;
  return line.take();
}

bool MetricsTables::apply(std::string_view line) {
  try {
    Fields fields(line);
    const std::string_view kind = fields.raw();
    apply_fields(*this, kind, fields);
    return fields.done();
  } catch (const Nonsense&) {
    return false;
  }
}

}  // namespace bert_hpc::io::detail
