// The driver's functions, as CUDA 13.0 has them, without memory (copies.cpp).
//
// A call checks its arguments as the driver does and leaves the work to the machine. After an error
// that ends a context, every call gives that error until the context is released.
#include "driver.hpp"

namespace card {

int& current_card() {
  static thread_local int current = -1;
  return current;
}

Call::Call() : lock(machine().mutex), code(SUCCESS), card(current_card()) {
  Machine& all = machine();
  all.calls++;
  if (all.lost) code = UNKNOWN;
  else if (!all.initialized) code = NOT_INITIALIZED;
  else if (card < 0 || !all.cards[card].retained) code = INVALID_CONTEXT;
  else code = all.cards[card].error;
}

}  // namespace card

using namespace card;

namespace {

/// What calls without a context need.
Code ready(int number = 0) {
  Machine& all = machine();
  if (all.lost) return UNKNOWN;
  if (!all.initialized) return NOT_INITIALIZED;
  return number < 0 || number >= all.card_count ? INVALID_DEVICE : SUCCESS;
}

void* context_of(int number) {
  return reinterpret_cast<void*>(uint64_t{0x200} + static_cast<unsigned>(number));
}

struct Name {
  Code code;
  const char *name, *text;
};
const Name NAMES[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

int attribute_value(int attribute, int number) {
  switch (attribute) {
    case 1: case 2: case 3: return 1024;  // threads of a block, and its x and y
    case 4: return 64;
    case 5: return 0x7fffffff;
    case 6: case 7: return 65535;
    case 8: return 48 << 10;  // shared memory of a block
    case 10: return 32;
    case 12: case 82: return 65536;  // registers of a block and of a multiprocessor
    case 13: return 1000000;  // kHz
    case 16: return 4;  // multiprocessors
    case 33: return number + 1;  // bus
    case 38: return 4 << 20;  // cache
    case 39: return 2048;
    case 40: return 2;
    case 75: return 8;  // compute capability 8.0
    case 76: return 0;
    case 81: return 100 << 10;
    case 97: return 99 << 10;  // shared memory of a block that asks for it
    case 106: return 32;
    case 19: case 31: case 41: case 78: case 90: case 95: case 115: return 1;
    default: return 0;
  }
}

}  // namespace

// ---- cards and contexts ----------------------------------------------------------------------------------

API int cuInit(unsigned flags) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  if (machine().lost) return UNKNOWN;
  if (flags) return INVALID_VALUE;
  if (!machine().card_count) return NO_DEVICE;
  machine().initialized = true;
  return SUCCESS;
}

API int cuDriverGetVersion(int* version) {
  *version = machine().driver_version;
  return SUCCESS;
}

API int cuDeviceGetCount(int* count) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  if (Code code = ready()) return code;
  *count = machine().card_count;
  return SUCCESS;
}

API int cuDeviceGet(int* device, int number) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  *device = number;
  return ready(number);
}

API int cuDeviceGetName(char* name, int length, int number) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  if (Code code = ready(number)) return code;
  snprintf(name, static_cast<size_t>(length), "emulated card");
  return SUCCESS;
}

API int cuDeviceGetUuid_v2(unsigned char* uuid, int number) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  if (Code code = ready(number)) return code;
  std::memset(uuid, 0xca, 16);
  uuid[15] = static_cast<unsigned char>(machine().physical[number]);
  return SUCCESS;
}

API int cuDeviceGetAttribute(int* value, int attribute, int number) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  if (Code code = ready(number)) return code;
  *value = attribute_value(attribute, machine().physical[number]);
  return SUCCESS;
}

API int cuDeviceTotalMem_v2(size_t* bytes, int number) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  if (Code code = ready(number)) return code;
  *bytes = memory().limit;
  return SUCCESS;
}

API int cuDevicePrimaryCtxRetain(void** context, int number) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  if (Code code = ready(number)) return code;
  machine().cards[number].retained++;
  *context = context_of(number);
  return SUCCESS;
}

API int cuDevicePrimaryCtxRelease_v2(int number) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  if (number < 0 || number >= Machine::MAX_CARDS || !machine().cards[number].retained) return INVALID_CONTEXT;
  if (--machine().cards[number].retained == 0) machine().forget_card(number);
  return SUCCESS;
}

API int cuCtxSetCurrent(void* context) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  if (Code code = ready()) return code;
  if (!context) {
    current_card() = -1;
    return SUCCESS;
  }
  int number = static_cast<int>(reinterpret_cast<uint64_t>(context) - 0x200);
  if (number < 0 || number >= machine().card_count) return INVALID_CONTEXT;
  if (!machine().cards[number].retained) return INVALID_CONTEXT;
  current_card() = number;
  return SUCCESS;
}

API int cuCtxGetCurrent(void** context) {
  *context = current_card() < 0 ? nullptr : context_of(current_card());
  return SUCCESS;
}

API int cuCtxSynchronize() {
  Call call;
  if (call.code) return call.code;
  if (Code code = machine().check_capture()) return code;
  machine().waits++;
  machine().run_card(call.card);
  return machine().cards[call.card].error;
}

// ---- streams and graphs ----------------------------------------------------------------------------------

API int cuStreamCreateWithPriority(void** stream, unsigned flags, int) {
  Call call;
  if (call.code) return call.code;
  // Blocking streams wait for the legacy stream, which does not exist here.
  if (flags != 1) return NOT_SUPPORTED;
  auto made = std::make_shared<Stream>();
  made->card = call.card;
  *stream = machine().streams.add(made);
  made->id = reinterpret_cast<uint64_t>(*stream);
  return SUCCESS;
}

API int cuStreamCreate(void** stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

API int cuStreamDestroy_v2(void* handle) {
  Call call;
  auto stream = machine().streams.get(handle);
  if (!stream || stream->closed) return INVALID_HANDLE;
  if (stream->capture) stream->capture->invalid = true;
  stream->closed = true;
  if (stream->tasks.empty()) machine().streams.remove(handle);
  return SUCCESS;
}

#define STREAM(handle)                                      \
  Call call;                                                \
  if (call.code) return call.code;                          \
  auto stream = machine().streams.get(handle);              \
  if (!stream || stream->closed) return INVALID_HANDLE;     \
  if (machine().cards[stream->card].error) return machine().cards[stream->card].error

API int cuStreamSynchronize(void* handle) {
  STREAM(handle);
  if (stream->capture) {
    stream->capture->invalid = true;
    return CAPTURE_UNSUPPORTED;
  }
  machine().waits++;
  machine().run_stream(*stream);
  return machine().cards[stream->card].error;
}

API int cuStreamQuery(void* handle) {
  STREAM(handle);
  if (stream->capture) {
    stream->capture->invalid = true;
    return CAPTURE_UNSUPPORTED;
  }
  machine().run_some();
  if (machine().cards[stream->card].error) return machine().cards[stream->card].error;
  return stream->tasks.empty() ? SUCCESS : NOT_READY;
}

API int cuStreamWaitEvent(void* handle, void* event_handle, unsigned) {
  STREAM(handle);
  auto event = machine().events.get(event_handle);
  return event ? machine().wait_event(*stream, *event) : INVALID_HANDLE;
}

API int cuStreamBeginCapture_v2(void* handle, int mode) {
  STREAM(handle);
  return machine().begin_capture(*stream, mode);
}

API int cuStreamEndCapture(void* handle, void** graph) {
  STREAM(handle);
  *graph = nullptr;
  std::shared_ptr<Graph> made;
  Code code = machine().end_capture(*stream, &made);
  if (code == SUCCESS) *graph = machine().graphs.add(made);
  return code;
}

API int cuStreamIsCapturing(void* handle, int* status) {
  STREAM(handle);
  *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
  return SUCCESS;
}

API int cuGraphInstantiateWithFlags(void** exec, void* handle, unsigned long long) {
  Call call;
  if (call.code) return call.code;
  auto graph = machine().graphs.get(handle);
  if (!graph) return INVALID_VALUE;
  auto made = std::make_shared<Exec>();
  made->graph = std::make_shared<Graph>(*graph);
  *exec = machine().execs.add(made);
  return SUCCESS;
}

API int cuGraphLaunch(void* exec_handle, void* handle) {
  STREAM(handle);
  auto exec = machine().execs.get(exec_handle);
  if (!exec || exec->graph->card != stream->card) return INVALID_VALUE;
  return machine().replay(*stream, *exec);
}

API int cuGraphExecDestroy(void* exec) {
  Call call;
  return machine().execs.remove(exec) ? SUCCESS : INVALID_VALUE;
}

API int cuGraphDestroy(void* graph) {
  Call call;
  return machine().graphs.remove(graph) ? SUCCESS : INVALID_VALUE;
}

// ---- events ----------------------------------------------------------------------------------------------

API int cuEventCreate(void** event, unsigned flags) {
  Call call;
  if (call.code) return call.code;
  auto made = std::make_shared<Event>();
  made->card = call.card;
  made->timing = !(flags & 2);
  *event = machine().events.add(made);
  return SUCCESS;
}

API int cuEventDestroy_v2(void* event) {
  Call call;
  return machine().events.remove(event) ? SUCCESS : INVALID_HANDLE;
}

API int cuEventRecord(void* event_handle, void* handle) {
  STREAM(handle);
  auto event = machine().events.get(event_handle);
  if (!event || event->card != stream->card) return INVALID_HANDLE;
  return machine().record_event(*stream, *event);
}

#define EVENT(handle)                                  \
  Call call;                                           \
  if (call.code) return call.code;                     \
  auto event = machine().events.get(handle);           \
  if (!event) return INVALID_HANDLE;                   \
  if (event->capture) return CAPTURED_EVENT

API int cuEventQuery(void* handle) {
  EVENT(handle);
  if (Code code = machine().check_capture()) return code;
  if (!event->ticket || event->ticket->done) return machine().cards[event->card].error;
  machine().run_some();
  if (machine().cards[event->card].error) return machine().cards[event->card].error;
  return event->ticket->done ? SUCCESS : NOT_READY;
}

API int cuEventSynchronize(void* handle) {
  EVENT(handle);
  machine().waits++;
  if (event->ticket) machine().run_ticket(*event->ticket);
  return machine().cards[event->card].error;
}

API int cuEventElapsedTime_v2(float* milliseconds, void* start_handle, void* end_handle) {
  Call call;
  if (call.code) return call.code;
  auto start = machine().events.get(start_handle), end = machine().events.get(end_handle);
  for (auto& event : {start, end})
    if (!event || !event->timing || !event->ticket) return INVALID_HANDLE;
  if (!start->ticket->done || !end->ticket->done) return NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(end->ticket->time - start->ticket->time).count();
  return SUCCESS;
}

// ---- kernels ---------------------------------------------------------------------------------------------

API int cuModuleLoadData(void** module, const void* image) {
  Call call;
  if (call.code) return call.code;
  if (Code code = machine().check_capture()) return code;
  if (!image) return INVALID_VALUE;
  auto made = std::make_shared<Module>();
  made->card = call.card;
  *module = machine().modules.add(made);
  return SUCCESS;
}

API int cuModuleGetFunction(void** function, void* handle, const char* name) {
  Call call;
  if (call.code) return call.code;
  auto module = machine().modules.get(handle);
  if (!module) return INVALID_HANDLE;
  const Entry* entry = find_kernel(name);
  if (!entry) return NOT_FOUND;
  auto made = std::make_shared<Function>();
  made->module = reinterpret_cast<uint64_t>(handle);
  made->card = module->card;
  made->entry = entry;
  *function = machine().functions.add(made);
  return SUCCESS;
}

API int cuModuleUnload(void* handle) {
  Call call;
  auto& functions = machine().functions.objects;
  for (auto at = functions.begin(); at != functions.end();)
    at = at->second->module == reinterpret_cast<uint64_t>(handle) ? functions.erase(at) : std::next(at);
  return machine().modules.remove(handle) ? SUCCESS : INVALID_HANDLE;
}

API int cuFuncSetAttribute(void* handle, int attribute, int value) {
  Call call;
  if (call.code) return call.code;
  auto function = machine().functions.get(handle);
  if (!function) return INVALID_HANDLE;
  if (attribute == 8) {
    if (value < 0 || value > attribute_value(97, 0)) return INVALID_VALUE;
    function->dynamic_shared = value;
  } else if (attribute != 9) {
    return INVALID_VALUE;
  }
  return SUCCESS;
}

API int cuFuncGetAttribute(int* value, int attribute, void* handle) {
  Call call;
  if (call.code) return call.code;
  auto function = machine().functions.get(handle);
  if (!function) return INVALID_HANDLE;
  switch (attribute) {
    case 0: *value = 1024; return SUCCESS;
    case 4: *value = 32; return SUCCESS;  // registers
    case 5: case 6: *value = 80; return SUCCESS;
    case 8: *value = function->dynamic_shared; return SUCCESS;
    default: *value = 0; return attribute >= 0 && attribute <= 15 ? SUCCESS : INVALID_VALUE;
  }
}

/// As the driver's.
struct LaunchAttribute {
  int id, pad;
  union {
    char bytes[64];
    int allowed;
  } value;
};
struct LaunchConfig {
  dim3 grid, block;
  unsigned shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned count;
};
constexpr int EARLY = 6;

API int cuLaunchKernelEx(const LaunchConfig* config, void* function_handle, void** args, void** extra) {
  void* handle = config->stream;
  STREAM(handle);
  auto function = machine().functions.get(function_handle);
  if (!function || function->card != stream->card) return INVALID_HANDLE;
  dim3 grid = config->grid, block = config->block;
  unsigned shared_bytes = config->shared_bytes;
  uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (!threads || threads > 1024 || block.z > 64 || extra) return INVALID_VALUE;
  if (!grid.x || !grid.y || !grid.z) return INVALID_VALUE;
  if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) return INVALID_VALUE;
  if (shared_bytes > static_cast<unsigned>(function->dynamic_shared)) return INVALID_VALUE;
  bool early = false;
  for (unsigned i = 0; i < config->count; i++) {
    if (config->attributes[i].id != EARLY) return NOT_SUPPORTED;
    early = config->attributes[i].value.allowed;
  }
  machine().early_launches += early;
  const size_t* sizes = function->entry->sizes;
  if (*sizes && !args) return INVALID_VALUE;
  auto launch = std::make_shared<Launch>();
  launch->entry = function->entry;
  launch->grid = grid;
  launch->block = block;
  launch->shared_bytes = shared_bytes;
  launch->early = early;
  for (size_t i = 0; sizes[i]; i++) {
    launch->args.emplace_back((sizes[i] + 15) / 16);
    std::memcpy(launch->args.back().data(), args[i], sizes[i]);
  }
  auto work = std::make_shared<Work>();
  work->name = function->entry->name;
  work->card = stream->card;
  work->is_launch = true;
  work->run = [launch](Random& random) { return run_kernel(*launch, random); };
  return machine().submit(*stream, work);
}

API int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** args,
                       void** extra) {
  LaunchConfig config{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, nullptr, 0};
  return cuLaunchKernelEx(&config, function, args, extra);
}

// ---- errors ----------------------------------------------------------------------------------------------

API int cuGetErrorName(int code, const char** name) {
  for (const Name& known : NAMES)
    if (known.code == code) return *name = known.name, SUCCESS;
  *name = nullptr;
  return INVALID_VALUE;
}

API int cuGetErrorString(int code, const char** text) {
  for (const Name& known : NAMES)
    if (known.code == code) return *text = known.text, SUCCESS;
  *text = nullptr;
  return INVALID_VALUE;
}
