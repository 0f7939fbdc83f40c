#include "text_decoder.hpp"

#include <iconv.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::prep {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t block_bytes = std::size_t{64} << 10;
constexpr char invalid = '\xFF';  // in no UTF-8

/// The name in lower-case letters and digits, and what iconv calls the encoding that browsers read under it.
constexpr std::pair<std::string_view, const char*> browser_names[] = {
    {"shiftjis", "CP932"}, {"sjis", "CP932"},      {"mskanji", "CP932"},   {"eucjp", "EUC-JP-MS"},
    {"euckr", "CP949"},    {"ksc5601", "CP949"},   {"gb2312", "GB18030"},  {"gbk", "GB18030"},
    {"cp936", "GB18030"},  {"big5", "BIG5-HKSCS"}, {"iso88599", "CP1254"}, {"latin5", "CP1254"},
    {"tis620", "CP874"},   {"utf16", "UTF-16LE"},  {"utf32", "UTF-32LE"},  {"macroman", "MACINTOSH"},
    {"mac", "MACINTOSH"},  {"unicode", "UTF-16LE"}};
constexpr std::string_view windows_1252_names[] = {"latin1", "iso88591", "88591",      "l1",
                                                   "cp819",  "cp1252",   "windows1252"};

// Characters of the bytes 0x80 to 0x9F; five bytes that Windows does not define are control characters, as in browsers.
constexpr std::array<char16_t, 32> windows_1252 = {0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021,
                                                   0x2C6,  0x2030, 0x160,  0x2039, 0x152,  0x8D,   0x17D,  0x8F,
                                                   0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                                   0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};

std::string letters_of(std::string_view encoding) {
  std::string name;
  for (const char c : encoding) {
    if (c != '-' && c != '_' && c != ' ') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

bool is_windows_1252(std::string_view encoding) {
  return std::find(std::begin(windows_1252_names), std::end(windows_1252_names), letters_of(encoding)) !=
         std::end(windows_1252_names);
}

const auto no_converter = reinterpret_cast<iconv_t>(-1);

/// A converter to UTF-8; no_converter if iconv has none.
iconv_t open_converter(const std::string& encoding) {
  // iconv takes further options behind a slash, and an empty name for the locale's encoding.
  const bool is_name = !encoding.empty() && std::all_of(encoding.begin(), encoding.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || "-_.:+ "sv.find(c) != std::string_view::npos;
  });
  if (!is_name) return no_converter;
  const std::string letters = letters_of(encoding);
  std::string dashes = encoding;
  std::replace(dashes.begin(), dashes.end(), '_', '-');
  std::vector<std::string> names = {encoding, dashes, letters};
  if (letters.starts_with("utf16") || letters.starts_with("utf32")) names = {"utf-" + letters.substr(3)};
  for (const auto& [name, usual] : browser_names) {
    if (letters == name) names.insert(names.begin(), usual);
  }
  for (const std::string& name : names) {
    const iconv_t converter = iconv_open("UTF-8", name.c_str());
    if (converter != no_converter) return converter;
  }
  return no_converter;
}

}  // namespace

struct TextDecoder::Converter {
  explicit Converter(const std::string& encoding) : handle(open_converter(encoding)) {
    if (handle == no_converter) {
      throw core::Error(core::ExitCode::data, "The encoding \"" + encoding + "\" is not known.");
    }
    const std::string letters = letters_of(encoding);
    if (letters.starts_with("utf16") || letters.starts_with("ucs2") || letters == "unicode") unit = 2;
    if (letters.starts_with("utf32") || letters.starts_with("ucs4")) unit = 4;
  }
  ~Converter() { iconv_close(handle); }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  iconv_t handle;
  std::size_t unit = 1;  // bytes to skip if they are no character
};

bool is_utf8(std::string_view encoding) {
  const std::string letters = letters_of(encoding);
  return letters == "utf8" || letters == "utf8sig" || letters == "utf8bom" || letters == "u8";
}

bool is_known_encoding(const std::string& encoding) {
  if (is_utf8(encoding) || is_windows_1252(encoding)) return true;
  const iconv_t converter = open_converter(encoding);
  if (converter == no_converter) return false;
  iconv_close(converter);
  return true;
}

std::string marked_encoding(std::string_view start) {
  if (start.starts_with("\xEF\xBB\xBF"sv)) return "utf-8";
  if (start.starts_with("\xFF\xFE\0\0"sv)) return "utf-32le";
  if (start.starts_with("\0\0\xFE\xFF"sv)) return "utf-32be";
  if (start.starts_with("\xFF\xFE"sv)) return "utf-16le";
  return start.starts_with("\xFE\xFF"sv) ? "utf-16be" : "";
}

std::string unmarked_utf16(std::string_view start) {
  constexpr std::size_t least = 8;  // characters
  std::array<std::size_t, 2> zeros{};
  for (std::size_t i = 0; i < start.size(); ++i) zeros[i % 2] += start[i] == '\0' ? 1 : 0;
  const std::size_t characters = start.size() / 2;
  if (characters < least || (zeros[0] > 0) == (zeros[1] > 0)) return {};
  if (2 * std::max(zeros[0], zeros[1]) < characters) return {};
  return zeros[0] > 0 ? "utf-16be" : "utf-16le";
}

TextDecoder::TextDecoder(TextBytes& bytes, const std::string& encoding, std::string_view start)
    : bytes_(bytes), input_(std::max(block_bytes, start.size())), input_size_(start.size()), output_(4 * block_bytes) {
  std::copy(start.begin(), start.end(), input_.begin());
  if (!is_windows_1252(encoding)) converter_ = std::make_unique<Converter>(encoding);
}

TextDecoder::~TextDecoder() = default;

std::size_t TextDecoder::read(char* out, std::size_t room) {
  while (begin_ == end_) {
    if (!refill()) return 0;
  }
  const std::size_t size = std::min(room, end_ - begin_);
  std::memcpy(out, output_.data() + begin_, size);
  begin_ += size;
  return size;
}

/// Decodes the next block; false if there is no more.
bool TextDecoder::refill() {
  begin_ = end_ = 0;
  const std::size_t got =
      input_size_ < input_.size() ? bytes_.read(input_.data() + input_size_, input_.size() - input_size_) : 0;
  const bool at_end = got == 0 && input_size_ < input_.size();
  input_size_ += got;
  if (converter_) {
    convert(at_end);
  } else {
    decode_bytes();
  }
  return end_ > 0 || !at_end;
}

void TextDecoder::decode_bytes() {
  if (output_.size() < 3 * input_size_) output_.resize(3 * input_size_);
  char* out = output_.data();
  for (std::size_t i = 0; i < input_size_; ++i) {
    const auto byte = static_cast<unsigned char>(input_[i]);
    out = tokenize::encode_utf8(byte >= 0x80 && byte < 0xA0 ? windows_1252[byte - 0x80] : byte, out);
  }
  end_ = static_cast<std::size_t>(out - output_.data());
  input_size_ = 0;
}

void TextDecoder::convert(bool at_end) {
  char* in = input_.data();
  std::size_t left = input_size_;
  constexpr std::size_t longest_character = 16;  // with what iconv held back
  const auto room = [&] {
    if (output_.size() - end_ < longest_character) output_.resize(2 * output_.size());
  };
  const auto step = [&](char** from, std::size_t* size) {
    room();
    char* out = output_.data() + end_;
    std::size_t free = output_.size() - end_;
    const std::size_t result = iconv(converter_->handle, from, size, &out, &free);
    end_ = static_cast<std::size_t>(out - output_.data());
    return result;
  };
  constexpr auto failed = static_cast<std::size_t>(-1);
  while (left > 0 && step(&in, &left) == failed) {
    if (errno == E2BIG) {
      output_.resize(2 * output_.size());
      continue;
    }
    if (errno == EINVAL && !at_end) break;  // a character that the next block completes
    room();
    output_[end_++] = invalid;
    const std::size_t skipped = std::min(left, converter_->unit);
    in += skipped;
    left -= skipped;
  }
  if (at_end) step(nullptr, nullptr);
  std::memmove(input_.data(), in, left);
  input_size_ = left;
}

}  // namespace bert_hpc::prep
