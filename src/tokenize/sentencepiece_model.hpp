// The file of a SentencePiece model: a ModelProto of its sentencepiece_model.proto in protobuf's wire format, as far as
// tokenizers are made of it. Files may be hostile. Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::tokenize {

struct SentencePieceModel {
  enum class PieceType : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text{};
    float score = 0;
    PieceType type = PieceType::normal;
  };
  enum class Algorithm : std::uint8_t { unigram = 1, bpe, word, character };

  std::vector<Piece> pieces{};
  Algorithm algorithm = Algorithm::unigram;
  std::int32_t unknown = 0;     ///< id of the unknown piece, as its training states
  std::string character_map{};  ///< binary, as CharacterMap takes it; "": characters stay
};

/// Nothing, and a problem, for bytes that are no such file.
std::optional<SentencePieceModel> sentencepiece_model_of(std::string_view bytes, std::string& problem);

}  // namespace bert_hpc::tokenize
