// Copies, fills, and the driver's functions for memory.
#include <algorithm>

#include "driver.hpp"

namespace card {
namespace {

size_t extent(const Side& side, size_t rows, size_t row_bytes) {
  return rows && row_bytes ? (rows - 1) * side.pitch + row_bytes : 0;
}

enum class Place { Device, Pinned, Pageable };

/// Where bytes lie; `card` is set for a card's. Null for some of a card's memory and some beside it.
bool locate(const Side& side, size_t bytes, Place* place, int* card) {
  if (const Allocation* piece = memory().find(side.at, bytes)) {
    *place = Place::Device;
    *card = piece->card;
    return true;
  }
  const Allocation* near = memory().nearest(side.at);
  if (near && side.at < near->at + near->bytes) return false;
  *place = memory().find_pinned(side.at, bytes) ? Place::Pinned : Place::Pageable;
  return true;
}

/// Whether memory of a card can be used when the work for it runs, not only when it was given.
bool is_live(const Side& side, size_t bytes) {
  const Allocation* piece = memory().find(side.at, bytes);
  return piece && piece->ready;
}

Fault gone(const Side& side) {
  return {Fault::Address, "access to " + describe_address(side.at)};
}

void copy_now(Side to, Side from, size_t rows, size_t row_bytes) {
  for (size_t row = 0; row < rows; row++)
    std::memcpy(to.at + row * to.pitch, from.at + row * from.pitch, row_bytes);
}

Code fill(void* to, size_t element, unsigned value, size_t count, void* stream_handle) {
  Call call;
  if (call.code) return call.code;
  auto stream = machine().streams.get(stream_handle);
  if (!stream || stream->closed) return INVALID_HANDLE;
  Side side{static_cast<char*>(to), 0};
  size_t bytes = element * count;
  const Allocation* piece = memory().find(side.at, bytes);
  if (!piece || reinterpret_cast<uintptr_t>(to) % element) return INVALID_VALUE;
  auto work = std::make_shared<Work>();
  work->name = "fill";
  work->card = stream->card;
  work->other = piece->card;
  work->run = [=](Random&) -> Fault {
    if (!is_live(side, bytes)) return gone(side);
    return run_guarded([&] {
      for (size_t i = 0; i < count; i++) std::memcpy(side.at + i * element, &value, element);
    });
  };
  return machine().submit(*stream, work);
}

}  // namespace

Code copy_rows(Stream& stream, Side to, Side from, size_t rows, size_t row_bytes) {
  Place to_place, from_place;
  int to_card = -1, from_card = -1;
  size_t to_bytes = extent(to, rows, row_bytes), from_bytes = extent(from, rows, row_bytes);
  if (!locate(to, to_bytes, &to_place, &to_card) || !locate(from, from_bytes, &from_place, &from_card))
    return INVALID_VALUE;
  bool pageable = to_place == Place::Pageable || from_place == Place::Pageable;
  if (pageable && stream.capture) {
    // It would read and write memory of the host that may be gone when the graph is replayed.
    stream.capture->invalid = true;
    return CAPTURE_UNSUPPORTED;
  }
  std::shared_ptr<std::vector<char>> taken;
  if (from_place == Place::Pageable) {
    taken = std::make_shared<std::vector<char>>(rows * row_bytes);
    copy_now({taken->data(), row_bytes}, from, rows, row_bytes);
    from = {taken->data(), row_bytes};
  }
  auto work = std::make_shared<Work>();
  work->name = "copy";
  work->card = stream.card;
  work->other = to_card >= 0 && to_card != stream.card ? to_card : from_card;
  work->run = [=](Random&) -> Fault {
    (void)taken;
    if (to_place == Place::Device && !is_live(to, to_bytes)) return gone(to);
    if (from_place == Place::Device && !is_live(from, from_bytes)) return gone(from);
    return run_guarded([&] { copy_now(to, from, rows, row_bytes); });
  };
  Code code = machine().submit(stream, work);
  if (code == SUCCESS && to_place == Place::Pageable) {
    machine().run_stream(stream);
    return machine().cards[stream.card].error;
  }
  return code;
}

}  // namespace card

using namespace card;

namespace {

/// Addresses for memory, unless this one shall fail. What others have freed on their streams is waited
/// for before the card is out of memory, as the driver does.
char* reserve(int number, size_t bytes) {
  Machine& all = machine();
  if (all.allocation_to_fail && --all.allocation_to_fail == 0) return nullptr;
  char* at = memory().reserve(number, bytes, all.random);
  if (at) return at;
  all.run_card(number);
  return memory().reserve(number, bytes, all.random);
}

bool is_device(const void* at) { return memory().find(at, 1) != nullptr; }

Code copy(void* to, bool to_device, const void* from, bool from_device, size_t bytes, void* stream_handle) {
  Call call;
  if (call.code) return call.code;
  auto stream = machine().streams.get(stream_handle);
  if (!stream || stream->closed) return INVALID_HANDLE;
  if (!bytes) return SUCCESS;
  if (is_device(to) != to_device || is_device(from) != from_device) return INVALID_VALUE;
  Side target{static_cast<char*>(to), bytes}, source{static_cast<char*>(const_cast<void*>(from)), bytes};
  return copy_rows(*stream, target, source, 1, bytes);
}

/// CUDA_MEMCPY2D.
struct Copy2D {
  size_t from_x, from_y;
  int from_type;
  const void* from_host;
  void* from_device;
  void* from_array;
  size_t from_pitch;
  size_t to_x, to_y;
  int to_type;
  void* to_host;
  void* to_device;
  void* to_array;
  size_t to_pitch;
  size_t row_bytes, rows;
};

}  // namespace

API int cuMemGetInfo_v2(size_t* free, size_t* total) {
  Call call;
  if (call.code) return call.code;
  *total = memory().limit;
  size_t taken = memory().allocated(call.card);
  *free = taken < *total ? *total - taken : 0;
  return SUCCESS;
}

API int cuMemAlloc_v2(void** at, size_t bytes) {
  Call call;
  if (call.code) return call.code;
  if (Code code = machine().check_capture()) return code;
  if (!bytes) return INVALID_VALUE;
  char* start = reserve(call.card, bytes);
  if (machine().cards[call.card].error) return machine().cards[call.card].error;
  if (!start) return OUT_OF_MEMORY;
  memory().make_ready(start);
  memory().close();
  *at = start;
  return SUCCESS;
}

API int cuMemFree_v2(void* at) {
  Call call;
  if (call.code) return call.code;
  if (Code code = machine().check_capture()) return code;
  if (!at) return SUCCESS;
  const Allocation* piece = memory().find(at, 0);
  if (!piece || piece->at != at) return INVALID_VALUE;
  int number = piece->card;
  machine().run_card(number);
  if (!memory().release(static_cast<char*>(at)))
    machine().fail(number, ILLEGAL_ADDRESS, "bytes beside a buffer were written to");
  return machine().cards[number].error;
}

API int cuMemAllocAsync(void** at, size_t bytes, void* stream_handle) {
  Call call;
  if (call.code) return call.code;
  auto stream = machine().streams.get(stream_handle);
  if (!stream || stream->closed) return INVALID_HANDLE;
  if (!bytes) return INVALID_VALUE;
  if (stream->capture) {
    // A card would give the memory to the graph; we never ask for that.
    stream->capture->invalid = true;
    return CAPTURE_UNSUPPORTED;
  }
  char* start = reserve(stream->card, bytes);
  if (machine().cards[stream->card].error) return machine().cards[stream->card].error;
  if (!start) return OUT_OF_MEMORY;
  auto work = std::make_shared<Work>();
  work->name = "allocation";
  work->card = stream->card;
  work->run = [start](Random&) -> Fault {
    memory().make_ready(start);
    return {};
  };
  *at = start;
  return machine().submit(*stream, work);
}

API int cuMemFreeAsync(void* at, void* stream_handle) {
  Call call;
  if (call.code) return call.code;
  auto stream = machine().streams.get(stream_handle);
  if (!stream || stream->closed) return INVALID_HANDLE;
  const Allocation* piece = memory().find(at, 0);
  if (!piece || piece->at != at) return INVALID_VALUE;
  if (stream->capture) {
    stream->capture->invalid = true;
    return CAPTURE_UNSUPPORTED;
  }
  auto work = std::make_shared<Work>();
  work->name = "free";
  work->card = stream->card;
  work->run = [at](Random&) -> Fault {
    if (!memory().find(at, 0)) return {Fault::Address, "memory was freed twice"};
    if (memory().release(static_cast<char*>(at))) return {};
    return {Fault::Address, "bytes beside a buffer were written to"};
  };
  return machine().submit(*stream, work);
}

API int cuDeviceGetDefaultMemPool(void** pool, int number) {
  Call call;
  if (machine().lost) return UNKNOWN;
  if (number < 0 || number >= machine().card_count) return INVALID_DEVICE;
  *pool = reinterpret_cast<void*>(uint64_t{0x100} + static_cast<unsigned>(number));
  return SUCCESS;
}

// Memory is given back at once here, so there is nothing to keep.
API int cuMemPoolSetAttribute(void*, int, void* value) { return value ? SUCCESS : INVALID_VALUE; }
API int cuMemPoolTrimTo(void*, size_t) { return machine().lost ? UNKNOWN : SUCCESS; }
API int cuMemPoolGetAttribute(void* pool, int attribute, void* value) {
  Call call;
  int number = static_cast<int>(reinterpret_cast<uint64_t>(pool) - 0x100);
  if (attribute < 5 || attribute > 8) return INVALID_VALUE;
  uint64_t bytes = memory().allocated(number);
  std::memcpy(value, &bytes, sizeof bytes);
  return SUCCESS;
}

API int cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  Call call;
  if (call.code) return call.code;
  if (Code code = machine().check_capture()) return code;
  if (!bytes) return INVALID_VALUE;
  *at = memory().pin(bytes);
  return *at ? SUCCESS : OUT_OF_MEMORY;
}

API int cuMemFreeHost(void* at) {
  Call call;
  if (call.code) return call.code;
  if (Code code = machine().check_capture()) return code;
  // A card would wait here; work that still uses the memory is a fault instead.
  return memory().unpin(at) ? SUCCESS : INVALID_VALUE;
}

API int cuMemHostGetDevicePointer_v2(void** device, void* host, unsigned) {
  Call call;
  if (call.code) return call.code;
  if (!memory().find_pinned(host, 0)) return INVALID_VALUE;
  *device = host;
  return SUCCESS;
}

API int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
  return copy(to, true, from, false, bytes, stream);
}

API int cuMemcpyDtoHAsync_v2(void* to, void* from, size_t bytes, void* stream) {
  return copy(to, false, from, true, bytes, stream);
}

API int cuMemcpyDtoDAsync_v2(void* to, void* from, size_t bytes, void* stream) {
  return copy(to, true, from, true, bytes, stream);
}

API int cuMemcpy2DAsync_v2(const Copy2D* all, void* stream_handle) {
  Call call;
  if (call.code) return call.code;
  auto stream = machine().streams.get(stream_handle);
  if (!stream || stream->closed) return INVALID_HANDLE;
  constexpr int HOST = 1, DEVICE = 2;
  for (int type : {all->from_type, all->to_type})
    if (type != HOST && type != DEVICE) return NOT_SUPPORTED;
  if (!all->rows || !all->row_bytes) return SUCCESS;
  if (all->row_bytes + all->from_x > all->from_pitch) return INVALID_VALUE;
  if (all->row_bytes + all->to_x > all->to_pitch) return INVALID_VALUE;
  void* from_at = all->from_type == HOST ? const_cast<void*>(all->from_host) : all->from_device;
  auto from = static_cast<char*>(from_at);
  auto to = static_cast<char*>(all->to_type == HOST ? all->to_host : all->to_device);
  if (is_device(from) != (all->from_type == DEVICE)) return INVALID_VALUE;
  if (is_device(to) != (all->to_type == DEVICE)) return INVALID_VALUE;
  Side target{to + all->to_y * all->to_pitch + all->to_x, all->to_pitch};
  Side source{from + all->from_y * all->from_pitch + all->from_x, all->from_pitch};
  return copy_rows(*stream, target, source, all->rows, all->row_bytes);
}

API int cuMemsetD8Async(void* to, unsigned char value, size_t count, void* stream) {
  return fill(to, 1, value, count, stream);
}

API int cuMemsetD32Async(void* to, unsigned value, size_t count, void* stream) {
  return fill(to, 4, value, count, stream);
}

API int cuPointerGetAttributes(unsigned count, const int* attributes, void** out, void* at) {
  Call call;
  if (call.code) return call.code;
  constexpr int MEMORY_TYPE = 2;
  constexpr unsigned UNKNOWN_MEMORY = 0, HOST = 1, DEVICE = 2;
  unsigned type = memory().find(at, 0) ? DEVICE : memory().find_pinned(at, 0) ? HOST : UNKNOWN_MEMORY;
  for (unsigned i = 0; i < count; i++) {
    if (attributes[i] != MEMORY_TYPE) return NOT_SUPPORTED;
    std::memcpy(out[i], &type, sizeof type);
  }
  return SUCCESS;
}
