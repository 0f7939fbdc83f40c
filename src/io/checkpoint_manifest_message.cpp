// A manifest as a message between ranks of one run: one rank reads it for all. Sizes and bytes as they lie in memory.
// The message is trusted, because the sender has checked the file.
#include <cstring>
#include <type_traits>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/checkpoint_file.hpp"

namespace bert_hpc::io {
namespace {

class Writer {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void operator()(const T& value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void operator()(const std::string& value) {
    (*this)(value.size());
    text += value;
  }
  template <class T>
  void operator()(const std::vector<T>& values) {
    (*this)(values.size());
    for (const T& value : values) fields(*this, value);
  }

  std::string text;
};

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  template <class T>
  requires std::is_trivially_copyable_v<T>
  void operator()(T& value) { std::memcpy(&value, take(sizeof value), sizeof value); }
  void operator()(std::string& value) {
    const std::size_t size = count();
    value.assign(take(size), size);
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    values.resize(count());
    for (T& value : values) fields(*this, value);
  }

 private:
  std::size_t count() {
    std::size_t size = 0;
    (*this)(size);
    core::require(size <= text_.size() - at_, "a manifest's message is cut");
    return size;
  }
  const char* take(std::size_t bytes) {
    core::require(bytes <= text_.size() - at_, "a manifest's message is cut");
    at_ += bytes;
    return text_.data() + (at_ - bytes);
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

template <class T, class Known>
concept Is = std::is_same_v<std::remove_const_t<T>, Known>;

// The members of each type, in one order for both directions.

template <class Visitor>
void fields(Visitor& visit, Is<core::WholeTensor> auto& tensor) {
  visit(tensor.name);
  visit(tensor.shape);
  visit(tensor.trainable);
}

template <class Visitor>
void fields(Visitor& visit, Is<CheckpointManifest::File> auto& file) {
  visit(file.rank);
  visit(file.pieces);
}

template <class Visitor>
void fields(Visitor& visit, Is<QuantityKind> auto& quantity) {
  visit(quantity.name);
  visit(quantity.form);
}

template <class Visitor, class First, class Second>
void fields(Visitor& visit, std::pair<First, Second>& entry) {
  visit(entry.first);
  visit(entry.second);
}

template <class Visitor, class First, class Second>
void fields(Visitor& visit, const std::pair<First, Second>& entry) {
  visit(entry.first);
  visit(entry.second);
}

template <class Visitor, class T>
requires(std::is_trivially_copyable_v<T> || Is<T, std::string>) void fields(Visitor& visit, T& value) {
  visit(value);
}

template <class Visitor>
void fields(Visitor& visit, Is<CheckpointManifest> auto& manifest) {
  visit(manifest.id);
  visit(manifest.step);
  visit(manifest.tensors);
  visit(manifest.files);
  visit(manifest.quantities);
  visit(manifest.integers);
  visit(manifest.reals);
  visit(manifest.texts);
}

}  // namespace

std::string to_message(const CheckpointManifest& manifest) {
  Writer writer;
  fields(writer, manifest);
  return writer.text;
}

CheckpointManifest manifest_of_message(const std::string& message) {
  CheckpointManifest manifest;
  Reader reader(message);
  fields(reader, manifest);
  return manifest;
}

}  // namespace bert_hpc::io
