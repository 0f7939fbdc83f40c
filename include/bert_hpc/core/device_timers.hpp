// Device time of the sections of a step. On CUDA builds, events in the stream of kernels measure the GPU's own time;
// the host's clock measures launches and waits. On CPU builds kernels run in the calling thread, so the host's clock is
// right. Nothing here waits within a step: marks that the device has reached are read later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

namespace bert_hpc::core {

/// A mark in the order of kernels, with the time at which the device reaches it.
class TimedMark {
 public:
  TimedMark() = default;
  TimedMark(const TimedMark&) = delete;
  TimedMark& operator=(const TimedMark&) = delete;
  ~TimedMark();
  void prepare();  ///< allocates what set() needs
  void set();      ///< after everything started so far; does not wait
  /// Whether the device has reached this mark, which is set. Does not wait.
  bool is_reached() const;
  /// Seconds between two marks, both set. Waits until the device reaches this one.
  double seconds_since(const TimedMark& earlier) const;

 private:
  void* event_ = nullptr;
  double seconds_ = 0;
};

/// Numbered marks in the order of a device's work.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  /// Sets a mark after everything started so far; does not wait.
  virtual void set(std::size_t mark) = 0;
  /// Whether the device has reached a mark. Does not wait.
  virtual bool is_reached(std::size_t mark) = 0;
  /// Seconds between two marks. Waits until the device reaches `end`.
  virtual double seconds(std::size_t begin, std::size_t end) = 0;
};

/// A clock of `marks` TimedMarks, all allocated here.
std::unique_ptr<DeviceClock> make_device_clock(std::size_t marks);

/// Measurements that the device has not finished yet: a ring of pairs of marks, in the order of their begins.
class DeviceLaps {
 public:
  /// Room for `laps` measurements at once; `clock` has 2 · laps marks. `add` receives each finished one.
  using Add = std::function<void(std::size_t section, double seconds)>;
  DeviceLaps(std::unique_ptr<DeviceClock> clock, std::size_t laps, Add add);

  /// Begins a measurement and returns its number, for end(). Waits for the device only if the ring is full.
  std::size_t begin(std::size_t section);
  void end(std::size_t lap) noexcept;
  /// Adds the measurements that the device has finished, up to the first that it has not. Does not wait. Throws what
  /// went wrong in an end().
  void collect();
  /// Waits for the device and adds all measurements that have ended.
  void finish();

 private:
  struct Lap {
    std::size_t section = 0;
    bool ended = false;
  };

  std::size_t slot(std::size_t lap) const { return lap % laps_.size(); }
  void add_oldest();

  std::unique_ptr<DeviceClock> clock_;
  Add add_;
  std::vector<Lap> laps_;             // ring: lap n is laps_[n % size], its marks are 2 · (n % size) and the next
  std::size_t first_ = 0, next_ = 0;  // laps [first_, next_) are not added yet
  std::exception_ptr failure_;
};

}  // namespace bert_hpc::core
