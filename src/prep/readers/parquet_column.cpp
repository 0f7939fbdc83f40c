#ifdef BERT_HPC_HAVE_PARQUET
#include "parquet_column.hpp"

#include <parquet/exception.h>
#include <parquet/types.h>

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::prep {
namespace {

using parquet::LogicalType;
using parquet::schema::GroupNode;
using parquet::schema::Node;

constexpr std::size_t batch_levels = 1024;

const GroupNode& as_group(const Node& node) {
  return static_cast<const GroupNode&>(node);
}

bool is_annotated_list(const Node& node) {
  const auto& type = node.logical_type();
  return node.converted_type() == parquet::ConvertedType::LIST || (type != nullptr && type->is_list());
}

/// Completes `field` if the node is a text, a number, a truth value or a list of them; false if it is nested.
bool find_entries(const Node& node, ParquetField& field) {
  if (node.is_primitive()) {
    field.is_list = node.is_repeated();
    field.entry_level = 1;
    return true;
  }
  if (!is_annotated_list(node) || node.is_repeated() || as_group(node).field_count() != 1) return false;
  const Node& entries = *as_group(node).field(0);
  if (!entries.is_repeated()) return false;
  field.is_list = true;
  field.entry_level = static_cast<std::int16_t>(node.is_optional() ? 2 : 1);
  if (entries.is_primitive()) return true;
  const GroupNode& holder = as_group(entries);
  return holder.field_count() == 1 && holder.field(0)->is_primitive() && !holder.field(0)->is_repeated();
}

/// Whether values of this type have a text.
bool has_text(const parquet::ColumnDescriptor& values) {
  const auto& type = values.logical_type();
  const bool is_plain = type == nullptr || type->is_none();
  switch (values.physical_type()) {
    case parquet::Type::BOOLEAN:
    case parquet::Type::FLOAT:
    case parquet::Type::DOUBLE:
      return is_plain;
    case parquet::Type::INT32:
    case parquet::Type::INT64:
      return is_plain || type->is_int() || type->is_null();
    case parquet::Type::BYTE_ARRAY:
      return is_plain || type->is_string() || type->is_enum() || type->is_JSON();
    default:
      return false;
  }
}

/// The type of values in words: "Timestamp", "INT96".
std::string type_name(const parquet::ColumnDescriptor& values) {
  const auto& type = values.logical_type();
  if (type == nullptr || type->is_none()) return parquet::TypeToString(values.physical_type());
  const std::string name = type->ToString();
  return name.substr(0, name.find('('));
}

std::string fields_of(const GroupNode& group) {
  std::vector<std::string> names;
  for (int i = 0; i < group.field_count(); ++i) names.push_back(group.field(i)->name());
  return core::printable(core::listed(names, "and"), 200);
}

/// Values of one physical type.
template <class Type>
class TypedColumn final : public ParquetColumn {
 public:
  using Value = typename Type::c_type;
  static constexpr bool is_number = std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>;

  TypedColumn(const parquet::ColumnDescriptor& values, const ParquetField& field, std::vector<std::string> class_names)
      : present_level_(values.max_definition_level()), entry_level_(field.entry_level), names_(std::move(class_names)) {
    const auto& type = values.logical_type();
    is_unsigned_ = type != nullptr && type->is_int() && !static_cast<const parquet::IntLogicalType&>(*type).is_signed();
  }

  void open(std::shared_ptr<parquet::ColumnReader> reader) override {
    reader_ = std::static_pointer_cast<parquet::TypedColumnReader<Type>>(std::move(reader));
    level_ = levels_ = 0;
  }

  std::string_view next_cell(std::string& problem) override {
    require_level();
    return definition_[level_++] == present_level_ ? text_of(take_value(), problem) : std::string_view();
  }

  void next_list(std::vector<ListEntry>& entries, std::string& problem) override {
    entries.clear();
    require_level();
    if (repetition_[level_] > 0) throw parquet::ParquetException("a list does not begin with a row");
    do {
      const std::int16_t definition = definition_[level_++];
      if (definition == present_level_) {
        entries.push_back(entry_of(take_value(), problem));
      } else if (definition >= entry_level_) {
        problem = "has a null in a list";
      }
    } while (has_level() && repetition_[level_] > 0);
  }

 private:
  /// Whether the row group has another level. Reads a batch if all before are used.
  bool has_level() {
    if (level_ < levels_) return true;
    level_ = levels_ = value_ = 0;
    if (!reader_ || !reader_->HasNext()) return false;
    values_read_ = 0;
    const std::int64_t levels =
        reader_->ReadBatch(batch_levels, definition_.data(), repetition_.data(), values_.data(), &values_read_);
    levels_ = static_cast<std::size_t>(levels);
    return levels_ > 0;
  }

  const Value& take_value() {
    if (std::cmp_greater_equal(value_, values_read_)) throw parquet::ParquetException("a page has too few values");
    return values_[value_++];
  }

  void require_level() {
    if (!has_level()) throw parquet::ParquetException("the column has fewer rows than the row group");
  }

  std::string_view text_of(const Value& value, std::string& problem) {
    if constexpr (std::is_same_v<Value, parquet::ByteArray>) {
      return {reinterpret_cast<const char*>(value.ptr), value.len};
    } else if constexpr (std::is_same_v<Value, bool>) {
      return value ? "true" : "false";
    } else if constexpr (std::is_floating_point_v<Value>) {
      return number_ = real_text(value);
    } else if (!names_.empty()) {
      if (value >= 0 && static_cast<std::size_t>(value) < names_.size()) return names_[static_cast<std::size_t>(value)];
      if (value != -1) problem = class_problem(value);
      return {};  // −1: without a label
    } else {
      return number_ = whole_text(value);
    }
  }

  ListEntry entry_of(const Value& value, std::string& problem) {
    if constexpr (std::is_same_v<Value, bool>) return {value ? "1" : "0", ListEntry::Kind::truth};
    const std::string_view text = text_of(value, problem);
    if (text.empty() && std::is_floating_point_v<Value>) problem = "has a number in a list that is not finite";
    if (text.empty() && !names_.empty() && problem.empty()) problem = class_problem(value);
    if (is_number && names_.empty()) return number_entry(text);
    return {std::string(text)};
  }

  /// The text as JSON has it: "1.0"; a float as the shortest number that is this float. "" if it is not finite.
  static std::string real_text(Value value) {
    if (!std::isfinite(value)) return {};
    std::array<char, 64> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    double shortest = 0;
    std::from_chars(text.data(), end, shortest);
    return core::json_text(nlohmann::json(shortest));
  }

  std::string whole_text(Value value) const {
    if constexpr (is_number && std::is_integral_v<Value>) {
      return is_unsigned_ ? std::to_string(static_cast<std::make_unsigned_t<Value>>(value)) : std::to_string(value);
    }
    return {};
  }

  std::string class_problem(const Value& value) const {
    return "has the number " + whole_text(value) + ", which is none of the " +
           core::counted(std::ssize(names_), "class", "classes") + " that the file names,";
  }

  std::int16_t present_level_, entry_level_;  // definition levels of a value that is not null, and of an entry
  std::vector<std::string> names_;
  bool is_unsigned_ = false;
  std::shared_ptr<parquet::TypedColumnReader<Type>> reader_;            // of the row group
  std::array<std::int16_t, batch_levels> definition_{}, repetition_{};  // zeros if the schema has no such levels
  std::array<Value, batch_levels> values_{};
  std::size_t level_ = 0, levels_ = 0;  // the next one and their number
  std::size_t value_ = 0;               // the next one
  std::int64_t values_read_ = 0;
  std::string number_;
};

}  // namespace

ParquetField parquet_field(const parquet::SchemaDescriptor& schema, const Node& node) {
  ParquetField field;
  for (int leaf = 0; leaf < schema.num_columns() && field.leaf < 0; ++leaf) {
    if (schema.GetColumnRoot(leaf) == &node) field.leaf = leaf;
  }
  if (!find_entries(node, field) || field.leaf < 0) {
    const bool is_struct = node.is_group() && !is_annotated_list(node);
    field.problem =
        is_struct ? "is nested: it holds " + fields_of(as_group(node)) : "holds lists of lists or of structs";
  } else if (const auto& values = *schema.Column(field.leaf); !has_text(values)) {
    field.problem = "holds values of the type " + type_name(values);
  }
  return field;
}

std::unique_ptr<ParquetColumn> make_parquet_column(const parquet::ColumnDescriptor& values, const ParquetField& field,
                                                   std::vector<std::string> class_names) {
  const auto make = [&]<class Type>(Type) -> std::unique_ptr<ParquetColumn> {
    return std::make_unique<TypedColumn<Type>>(values, field, std::move(class_names));
  };
  switch (values.physical_type()) {
    case parquet::Type::BOOLEAN:
      return make(parquet::BooleanType());
    case parquet::Type::FLOAT:
      return make(parquet::FloatType());
    case parquet::Type::DOUBLE:
      return make(parquet::DoubleType());
    case parquet::Type::INT32:
      return make(parquet::Int32Type());
    case parquet::Type::INT64:
      return make(parquet::Int64Type());
    default:
      return make(parquet::ByteArrayType());
  }
}

}  // namespace bert_hpc::prep
#endif
