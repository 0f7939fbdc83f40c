// As protobuf reads it: fields in any order, of which the last one counts; unknown ones, and values that an enumeration
// lacks, are left out.
#include "sentencepiece_model.hpp"

#include <bit>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {
namespace {

/// A field of a message.
struct Field {
  enum Type : std::uint8_t { varint = 0, eight_bytes = 1, sized = 2, four_bytes = 5 };
  std::uint32_t number = 0, type = 0;
  std::uint64_t value = 0;   ///< of a number, little-endian if it has a fixed size
  std::string_view bytes{};  ///< of a sized field

  bool is(std::uint32_t its_number, Type its_type) const { return number == its_number && type == its_type; }
};

/// The fields of a message one by one.
class Message {
 public:
  explicit Message(std::string_view bytes) : left_(bytes) {}

  /// False at the end, and if the message is damaged.
  bool next(Field& field) {
    if (left_.empty() || is_damaged_) return false;
    const std::uint64_t key = take_varint();
    constexpr std::uint64_t largest_number = (std::uint64_t{1} << 29) - 1;
    field = {.number = static_cast<std::uint32_t>(key >> 3), .type = static_cast<std::uint32_t>(key & 7)};
    if (key >> 3 == 0 || key >> 3 > largest_number) is_damaged_ = true;
    if (field.type == Field::varint) {
      field.value = take_varint();
    } else if (field.type == Field::sized) {
      field.bytes = take(take_varint());
    } else if (field.type == Field::eight_bytes || field.type == Field::four_bytes) {
      const std::string_view bytes = take(field.type == Field::eight_bytes ? 8 : 4);
      for (std::size_t i = bytes.size(); i > 0; --i) {
        field.value = field.value << 8 | static_cast<unsigned char>(bytes[i - 1]);
      }
    } else {
      is_damaged_ = true;  // groups, which the file does not have
    }
    return !is_damaged_;
  }
  bool is_damaged() const { return is_damaged_; }

 private:
  std::string_view take(std::uint64_t size) {
    is_damaged_ = is_damaged_ || size > left_.size();
    if (is_damaged_) return {};
    const std::string_view taken = left_.substr(0, static_cast<std::size_t>(size));
    left_.remove_prefix(taken.size());
    return taken;
  }

  std::uint64_t take_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = take(1);
      if (byte.empty()) return 0;
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte[0]) & 0x7F) << shift;
      if ((static_cast<unsigned char>(byte[0]) & 0x80) == 0) return value;
    }
    is_damaged_ = true;  // longer than a number can be
    return 0;
  }

  std::string_view left_;
  bool is_damaged_ = false;
};

/// Sets an enumeration whose values are 1 to `last`.
template <class Enumeration>
void set(Enumeration& to, std::uint64_t value, Enumeration last) {
  if (value >= 1 && value <= static_cast<std::uint64_t>(last)) to = static_cast<Enumeration>(value);
}

/// False if the message is damaged.
bool read_piece(std::string_view bytes, SentencePieceModel::Piece& piece) {
  Message message(bytes);
  for (Field field; message.next(field);) {
    if (field.is(1, Field::sized)) piece.text = field.bytes;
    if (field.is(2, Field::four_bytes)) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (field.is(3, Field::varint)) set(piece.type, field.value, SentencePieceModel::PieceType::byte);
  }
  return !message.is_damaged();
}

bool read_trainer(std::string_view bytes, SentencePieceModel& model) {
  Message message(bytes);
  for (Field field; message.next(field);) {
    if (field.is(3, Field::varint)) set(model.algorithm, field.value, SentencePieceModel::Algorithm::character);
    if (field.is(40, Field::varint)) model.unknown = static_cast<std::int32_t>(field.value);
  }
  return !message.is_damaged();
}

bool read_normalizer(std::string_view bytes, SentencePieceModel& model) {
  Message message(bytes);
  for (Field field; message.next(field);) {
    if (field.is(2, Field::sized)) model.character_map = field.bytes;
  }
  return !message.is_damaged();
}

}  // namespace

std::optional<SentencePieceModel> sentencepiece_model_of(std::string_view bytes, std::string& problem) {
  problem.clear();
  SentencePieceModel model;
  Message message(bytes);
  bool is_damaged = false;
  for (Field field; !is_damaged && message.next(field);) {
    if (field.is(1, Field::sized)) {
      if (model.pieces.size() == max_entries) {
        problem = "has more than " + core::with_commas(max_entries) + " pieces.";
        return std::nullopt;
      }
      is_damaged = !read_piece(field.bytes, model.pieces.emplace_back());
    }
    if (field.is(2, Field::sized)) is_damaged = !read_trainer(field.bytes, model);
    if (field.is(3, Field::sized)) is_damaged = !read_normalizer(field.bytes, model);
  }
  if (is_damaged || message.is_damaged()) {
    problem = "is no SentencePiece model, or only a part of one.";
  } else if (model.pieces.empty()) {
    problem = "is no SentencePiece model: it has no pieces.";
  }
  for (std::size_t i = 0; problem.empty() && i < model.pieces.size(); ++i) {
    if (!is_valid_utf8(model.pieces[i].text)) problem = "has the piece " + std::to_string(i) + ", which is not UTF-8.";
  }
  if (!problem.empty()) return std::nullopt;
  return model;
}

}  // namespace bert_hpc::tokenize
