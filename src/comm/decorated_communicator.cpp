#include "bert_hpc/comm/decorated_communicator.hpp"

namespace bert_hpc::comm {
namespace {

using Name = Operation::Name;
using Type = Operation::Type;

const char* text(Name name) {
  switch (name) {
    case Name::barrier:
      return "barrier";
    case Name::allocate:
      return "allocate";
    case Name::all_reduce:
      return "all_reduce";
    case Name::reduce_scatter:
      return "reduce_scatter";
    case Name::all_gather_pieces:
    case Name::all_gather:
      return "all_gather";
    case Name::broadcast:
      return "broadcast";
    case Name::split:
      return "split";
    case Name::exchange:
      return "exchange";
    case Name::send:
      return "send";
    case Name::receive:
      return "receive";
  }
  return "unknown";
}

std::string amount(const Operation& operation) {
  const std::string count = std::to_string(operation.count);
  switch (operation.type) {
    case Type::none:
      return "";
    case Type::bytes:
      return count + (operation.count == 1 ? " byte" : " bytes");
    case Type::float32:
      return "float × " + count;
    case Type::float64:
      return "double × " + count;
    case Type::int64:
      return "int64 × " + count;
  }
  return count;
}

std::string more(const Operation& operation, const std::function<int(int)>& number) {
  switch (operation.name) {
    case Name::all_reduce:
      switch (static_cast<Reduction>(operation.detail)) {
        case Reduction::sum:
          return ", sum";
        case Reduction::maximum:
          return ", maximum";
        case Reduction::minimum:
          return ", minimum";
      }
      return "";
    case Name::allocate:
      return static_cast<Sharing>(operation.detail) == Sharing::exposed ? ", exposed" : ", replicated";
    case Name::broadcast:
      return ", from rank " + std::to_string(number(operation.detail));
    case Name::exchange:
      return ", with rank " + std::to_string(number(operation.peer));
    case Name::send:
      return ", to rank " + std::to_string(number(operation.peer));
    case Name::receive:
      return ", from rank " + std::to_string(number(operation.peer));
    default:
      return "";
  }
}

template <class T>
Operation counted(Name name, Type type, std::span<T> data, int detail = 0, int peer = -1) {
  return {name, type, static_cast<std::int64_t>(data.size()), detail, peer};
}

}  // namespace

std::string describe(const Operation& operation, const std::function<int(int)>& number) {
  return std::string(text(operation.name)) + '(' + amount(operation) + more(operation, number) + ')';
}

void DecoratedCommunicator::barrier() {
  const Operation operation;
  enter(operation);
  inner_.barrier();
  leave(operation);
}

std::span<std::byte> DecoratedCommunicator::allocate(std::size_t bytes, Sharing sharing) {
  const Operation operation{Name::allocate, Type::bytes, static_cast<std::int64_t>(bytes), static_cast<int>(sharing)};
  enter(operation);
  const std::span<std::byte> memory = inner_.allocate(bytes, sharing);
  leave(operation);
  return memory;
}

void DecoratedCommunicator::all_reduce(std::span<float> data, Reduction reduction) {
  const Operation operation = counted(Name::all_reduce, Type::float32, data, static_cast<int>(reduction));
  enter(operation);
  inner_.all_reduce(data, reduction);
  leave(operation);
}

void DecoratedCommunicator::all_reduce(std::span<double> data, Reduction reduction) {
  const Operation operation = counted(Name::all_reduce, Type::float64, data, static_cast<int>(reduction));
  enter(operation);
  inner_.all_reduce(data, reduction);
  leave(operation);
}

void DecoratedCommunicator::all_reduce(std::span<std::int64_t> data, Reduction reduction) {
  const Operation operation = counted(Name::all_reduce, Type::int64, data, static_cast<int>(reduction));
  enter(operation);
  inner_.all_reduce(data, reduction);
  leave(operation);
}

RequestHandle DecoratedCommunicator::start_reduce_scatter(std::span<const float> data, std::span<float> mine) {
  const Operation operation = counted(Name::reduce_scatter, Type::float32, data);
  enter(operation);
  RequestHandle request = watched(inner_.start_reduce_scatter(data, mine), operation);
  leave(operation);
  return request;
}

RequestHandle DecoratedCommunicator::start_reduce_scatter(std::span<const float> data, std::span<float> mine,
                                                          const ZeroLines& zeros) {
  const Operation operation = counted(Name::reduce_scatter, Type::float32, data);
  enter(operation);
  RequestHandle request = watched(inner_.start_reduce_scatter(data, mine, zeros), operation);
  leave(operation);
  return request;
}

RequestHandle DecoratedCommunicator::start_all_gather(std::span<float> data) {
  const Operation operation = counted(Name::all_gather_pieces, Type::float32, data);
  enter(operation);
  RequestHandle request = watched(inner_.start_all_gather(data), operation);
  leave(operation);
  return request;
}

void DecoratedCommunicator::broadcast(std::span<float> data, int root) {
  const Operation operation = counted(Name::broadcast, Type::float32, data, root);
  enter(operation);
  inner_.broadcast(data, root);
  leave(operation);
}

void DecoratedCommunicator::broadcast(std::span<std::byte> data, int root) {
  const Operation operation = counted(Name::broadcast, Type::bytes, data, root);
  enter(operation);
  inner_.broadcast(data, root);
  leave(operation);
}

void DecoratedCommunicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const Operation operation = counted(Name::all_gather, Type::bytes, mine);
  enter(operation);
  inner_.all_gather(mine, all);
  leave(operation);
}

void DecoratedCommunicator::exchange(std::span<const float> send, std::span<float> receive, int peer) {
  const Operation operation = counted(Name::exchange, Type::float32, send, 0, peer);
  enter(operation);
  inner_.exchange(send, receive, peer);
  leave(operation);
}

void DecoratedCommunicator::send(std::span<const std::byte> data, int peer) {
  const Operation operation = counted(Name::send, Type::bytes, data, 0, peer);
  enter(operation);
  inner_.send(data, peer);
  leave(operation);
}

void DecoratedCommunicator::receive(std::span<std::byte> data, int peer) {
  const Operation operation = counted(Name::receive, Type::bytes, data, 0, peer);
  enter(operation);
  inner_.receive(data, peer);
  leave(operation);
}

RequestHandle DecoratedCommunicator::start_send(std::span<const float> data, int peer) {
  const Operation operation = counted(Name::send, Type::float32, data, 0, peer);
  enter(operation);
  RequestHandle request = watched(inner_.start_send(data, peer), operation);
  leave(operation);
  return request;
}

RequestHandle DecoratedCommunicator::start_receive(std::span<float> data, int peer) {
  const Operation operation = counted(Name::receive, Type::float32, data, 0, peer);
  enter(operation);
  RequestHandle request = watched(inner_.start_receive(data, peer), operation);
  leave(operation);
  return request;
}

RequestHandle DecoratedCommunicator::start_send(std::span<const std::byte> data, int peer) {
  const Operation operation = counted(Name::send, Type::bytes, data, 0, peer);
  enter(operation);
  RequestHandle request = watched(inner_.start_send(data, peer), operation);
  leave(operation);
  return request;
}

RequestHandle DecoratedCommunicator::start_receive(std::span<std::byte> data, int peer) {
  const Operation operation = counted(Name::receive, Type::bytes, data, 0, peer);
  enter(operation);
  RequestHandle request = watched(inner_.start_receive(data, peer), operation);
  leave(operation);
  return request;
}

std::unique_ptr<Communicator> DecoratedCommunicator::split(int color, int key) {
  const Operation operation{Name::split, Type::none, 0, 0};
  enter(operation);
  std::unique_ptr<Communicator> part = inner_.split(color, key);
  leave(operation);
  return part ? decorated(std::move(part)) : nullptr;
}

}  // namespace bert_hpc::comm
