// TensorBoard's event files, as far as curves need them. A file is a sequence of records,
//   uint64 length, masked CRC-32C of the length, payload, masked CRC-32C of the payload (all little-endian),
// whose payloads are protobuf messages Event: wall_time = 1 (double, s), step = 2 (int64) and one of file_version = 3
// (string), summary = 5 {repeated value = 1 {tag = 1 (string), simple_value = 2 (float)}}, session_log = 7 {status =
// 1}. Sources: TensorFlow's event.proto, summary.proto and record_writer.h; CRC-32C (Castagnoli): RFC 3720, B.4.
// Encoding is pure; EventFile alone touches files. Private to io.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "descriptor.hpp"

namespace bert_hpc::io::detail {

struct Scalar {
  std::string tag;
  double value = 0;
};

std::uint32_t crc32c(std::string_view bytes);
std::string encode_record(std::string_view payload);

/// The records at the beginning of every file: the format's version, and a session start, at which TensorBoard discards
/// the events of earlier files of the same directory.
std::string encode_beginning(double wall_time);
/// One record with a step's scalars.
std::string encode_event(double wall_time, std::int64_t step, const std::vector<Scalar>& scalars);

class EventFile {
 public:
  /// Creates a new file in `directory`, which is made if needed. Earlier files of ours are removed, except one that
  /// stays empty. The new name sorts after theirs, because TensorBoard reads a directory's files in the order of their
  /// names. Throws Error(files).
  EventFile(const std::string& directory, double wall_time);

  /// Appends whole records. Throws Error(files); the next call overwrites what a failed write left.
  void append(std::string_view records);
  void sync();  ///< forces the appended records to the disk

 private:
  std::string path_;
  Descriptor file_;
  std::int64_t size_ = 0;  ///< of the appended records
};

}  // namespace bert_hpc::io::detail
