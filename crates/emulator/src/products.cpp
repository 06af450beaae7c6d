// cuBLASLt's functions: products of matrices by plain loops, as work on a stream.
//
// There is one algorithm. It wants a workspace and the alignment that the preference promised, as a
// card's algorithms do, and it scribbles over the workspace, so that one that overlaps data is seen.
#include <algorithm>

#include "driver.hpp"
#include "halves.hpp"

using namespace card;

namespace {

enum Status { OK = 0, NO_HANDLE = 1, BAD_VALUE = 7, CANNOT = 15, FAILED = 13 };
enum Type { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };
enum Compute { COMPUTE_F32 = 68, COMPUTE_F32_PEDANTIC = 69, COMPUTE_F64 = 70, COMPUTE_TF32 = 77 };
enum Epilogue { PLAIN = 1, RELU = 2, BIAS = 4, RELU_BIAS = 6, GELU = 32, GELU_BIAS = 36 };

constexpr size_t WORKSPACE = 64 << 10;

struct Layout {
  int type;
  uint64_t rows, cols;
  int64_t ld;
  int order = 0;  // 0: columns one after another, 1: rows
  int batch = 1;
  int64_t stride = 0;

  size_t at(size_t row, size_t col) const {
    return order ? row * static_cast<size_t>(ld) + col : col * static_cast<size_t>(ld) + row;
  }
  /// Elements from the first to the last one, of all batches.
  size_t extent() const {
    if (!rows || !cols || !batch) return 0;
    return static_cast<size_t>(stride) * static_cast<size_t>(batch - 1) + at(rows - 1, cols - 1) + 1;
  }
  bool is_valid() const {
    return ld >= static_cast<int64_t>(order ? cols : rows) && batch >= 1 && (order == 0 || order == 1);
  }
};

struct Product {
  int compute, scale_type;
  int transpose_a = 0, transpose_b = 0;
  int epilogue = PLAIN;
  const void* bias = nullptr;
  int bias_type = -1;
  int pointer_mode = 0;
  int64_t bias_stride = 0;
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

/// What an algorithm's opaque words hold.
struct Algorithm {
  uint64_t mark, workspace;
  uint32_t alignment[4];
  uint64_t unused[4];
};
static_assert(sizeof(Algorithm) == 64, "cublasLtMatmulAlgo_t has 64 bytes");
constexpr uint64_t MARK = 0xca2d0000ca2d0001;

struct Found {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

size_t size_of(int type) { return type == F64 ? 8 : type == F32 ? 4 : 2; }

template <typename T> T load(const void* base, int type, size_t i) {
  switch (type) {
    case F64: return static_cast<T>(static_cast<const double*>(base)[i]);
    case F32: return static_cast<T>(static_cast<const float*>(base)[i]);
    case F16: return static_cast<T>(float_from_half(static_cast<const uint16_t*>(base)[i]));
    default: return static_cast<T>(value<float>(uint32_t{static_cast<const uint16_t*>(base)[i]} << 16));
  }
}

template <typename T> void store(void* base, int type, size_t i, T x) {
  switch (type) {
    case F64: static_cast<double*>(base)[i] = x; return;
    case F32: static_cast<float*>(base)[i] = static_cast<float>(x); return;
    case F16: static_cast<uint16_t*>(base)[i] = half_from_float(static_cast<float>(x)); return;
    default:
      static_cast<uint16_t*>(base)[i] = static_cast<uint16_t>(rounded_bits(static_cast<float>(x), 16) >> 16);
  }
}

template <typename T> T activate(T x, int epilogue) {
  if (epilogue & RELU) return x > T(0) ? x : x == x ? T(0) : x;
  if (epilogue & GELU) {
    T inner = T(0.7978845608028654) * (x + T(0.044715) * x * x * x);
    return T(0.5) * x * (T(1) + std::tanh(inner));
  }
  return x;
}

/// One product with everything that it was asked with.
struct Asked {
  Product product;
  Layout a, b, c, d;
  const void *a_at, *b_at, *c_at;
  void* d_at;
  double alpha, beta;
  char* workspace;
  size_t workspace_bytes;
};

template <typename T>
std::vector<T> gather(const void* base, const Layout& layout, bool transpose, size_t batch, bool tf32) {
  size_t rows = transpose ? layout.cols : layout.rows, cols = transpose ? layout.rows : layout.cols;
  std::vector<T> out(rows * cols);
  size_t start = batch * static_cast<size_t>(layout.stride);
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < cols; c++) {
      T x = load<T>(base, layout.type, start + (transpose ? layout.at(c, r) : layout.at(r, c)));
      out[r * cols + c] = tf32 ? T(value<float>(rounded_bits(static_cast<float>(x), 13))) : x;
    }
  return out;
}

template <typename T> void multiply(const Asked& all) {
  const Product& product = all.product;
  bool tf32 = product.compute == COMPUTE_TF32;
  size_t m = all.d.rows, n = all.d.cols, k = product.transpose_a ? all.a.rows : all.a.cols;
  std::memset(all.workspace, 0xcb, all.workspace_bytes);
  for (size_t batch = 0; batch < static_cast<size_t>(all.d.batch); batch++) {
    auto a = gather<T>(all.a_at, all.a, product.transpose_a, batch, tf32);
    auto b = gather<T>(all.b_at, all.b, product.transpose_b, batch, tf32);
    size_t c_start = batch * static_cast<size_t>(all.c.stride);
    size_t d_start = batch * static_cast<size_t>(all.d.stride);
    size_t bias_start = batch * static_cast<size_t>(product.bias_stride);
    std::vector<T> sums(n);
    for (size_t i = 0; i < m; i++) {
      std::fill(sums.begin(), sums.end(), T(0));
      for (size_t x = 0; x < k; x++)
        for (size_t j = 0; j < n; j++) sums[j] += a[i * k + x] * b[x * n + j];
      for (size_t j = 0; j < n; j++) {
        T sum = T(all.alpha) * sums[j];
        // What is multiplied by 0 is not read: it may be anything.
        if (all.beta != 0) sum += T(all.beta) * load<T>(all.c_at, all.c.type, c_start + all.c.at(i, j));
        if (product.epilogue & BIAS) sum += load<T>(product.bias, product.bias_type, bias_start + i);
        store(all.d_at, all.d.type, d_start + all.d.at(i, j), activate(sum, product.epilogue));
      }
    }
  }
}

Status check_types(const Product& product, int a, int b, int c, int d) {
  if (a != b || c != d) return CANNOT;
  switch (product.compute) {
    case COMPUTE_F64: return a == F64 && d == F64 && product.scale_type == F64 ? OK : CANNOT;
    case COMPUTE_TF32: return a == F32 && d == F32 && product.scale_type == F32 ? OK : CANNOT;
    case COMPUTE_F32:
    case COMPUTE_F32_PEDANTIC:
      if (product.scale_type != F32 || a == F64) return CANNOT;
      return d == a || (a != F32 && d == F32) ? OK : CANNOT;
    default: return CANNOT;
  }
}

Status check(const Product& product, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  for (const Layout* layout : {&a, &b, &c, &d})
    if (!layout->is_valid()) return BAD_VALUE;
  uint64_t m = product.transpose_a ? a.cols : a.rows, k = product.transpose_a ? a.rows : a.cols;
  uint64_t inner = product.transpose_b ? b.cols : b.rows, n = product.transpose_b ? b.rows : b.cols;
  if (!m || !n || !k || k != inner) return BAD_VALUE;
  if (d.rows != m || d.cols != n || c.rows != m || c.cols != n) return BAD_VALUE;
  if (a.batch != d.batch || b.batch != d.batch || c.batch != d.batch) return BAD_VALUE;
  switch (product.epilogue) {
    case PLAIN: case RELU: case BIAS: case RELU_BIAS: case GELU: case GELU_BIAS: break;
    default: return CANNOT;
  }
  if (product.epilogue != PLAIN && product.compute == COMPUTE_F64) return CANNOT;
  if (product.pointer_mode) return CANNOT;
  return check_types(product, a.type, b.type, c.type, d.type);
}

template <typename T> Status take(T* to, const void* from, size_t bytes) {
  if (bytes != sizeof(T)) return BAD_VALUE;
  std::memcpy(to, from, bytes);
  return OK;
}

bool in_memory(const void* at, size_t bytes) { return memory().find(at, bytes) != nullptr; }

/// Checks what may be wrong of the pointers of a product.
Status check_pointers(const Asked& all, const Algorithm& algorithm) {
  const void* at[4] = {all.a_at, all.b_at, all.c_at, all.d_at};
  const Layout* layouts[4] = {&all.a, &all.b, &all.c, &all.d};
  for (int i = 0; i < 4; i++) {
    if (i == 2 && all.beta == 0) continue;
    if (reinterpret_cast<uintptr_t>(at[i]) % algorithm.alignment[i]) return BAD_VALUE;
    if (!in_memory(at[i], layouts[i]->extent() * size_of(layouts[i]->type))) return BAD_VALUE;
  }
  if (all.workspace_bytes < algorithm.workspace) return BAD_VALUE;
  if (all.workspace_bytes && !in_memory(all.workspace, all.workspace_bytes)) return BAD_VALUE;
  size_t bias_bytes = all.d.rows * size_of(all.product.bias_type);
  if (all.product.epilogue & BIAS && !in_memory(all.product.bias, bias_bytes)) return BAD_VALUE;
  return OK;
}

}  // namespace

API int cublasLtCreate(void** handle) {
  Call call;
  if (call.code) return NO_HANDLE;
  *handle = new int(call.card);
  return OK;
}
API int cublasLtDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return OK;
}
API size_t cublasLtGetVersion() { return 130000; }
API const char* cublasLtGetStatusName(int status) {
  switch (status) {
    case OK: return "CUBLAS_STATUS_SUCCESS";
    case NO_HANDLE: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case BAD_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CANNOT: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}
API const char* cublasLtGetStatusString(int status) { return cublasLtGetStatusName(status); }

API int cublasLtMatmulDescCreate(Product** product, int compute, int scale_type) {
  *product = new Product;
  (*product)->compute = compute;
  (*product)->scale_type = scale_type;
  return OK;
}
API int cublasLtMatmulDescDestroy(Product* product) {
  delete product;
  return OK;
}
API int cublasLtMatmulDescSetAttribute(Product* product, int attribute, const void* from, size_t bytes) {
  switch (attribute) {
    case 2: return take(&product->pointer_mode, from, bytes);
    case 3: return take(&product->transpose_a, from, bytes);
    case 4: return take(&product->transpose_b, from, bytes);
    case 7: return take(&product->epilogue, from, bytes);
    case 8: return take(&product->bias, from, bytes);
    case 10: return take(&product->bias_stride, from, bytes);
    case 26: return take(&product->bias_type, from, bytes);
    default: return CANNOT;
  }
}

API int cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = new Layout{type, rows, cols, ld};
  return OK;
}
API int cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return OK;
}
API int cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* from, size_t bytes) {
  switch (attribute) {
    case 0: return take(&layout->type, from, bytes);
    case 1: return take(&layout->order, from, bytes);
    case 2: return take(&layout->rows, from, bytes);
    case 3: return take(&layout->cols, from, bytes);
    case 4: return take(&layout->ld, from, bytes);
    case 5: return take(&layout->batch, from, bytes);
    case 6: return take(&layout->stride, from, bytes);
    default: return CANNOT;
  }
}

API int cublasLtMatmulPreferenceCreate(Preference** preference) {
  *preference = new Preference;
  return OK;
}
API int cublasLtMatmulPreferenceDestroy(Preference* preference) {
  delete preference;
  return OK;
}
API int cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* from,
                                             size_t bytes) {
  uint32_t ignored;
  switch (attribute) {
    case 1: return take(&preference->workspace, from, bytes);
    case 3: return take(&ignored, from, bytes);  // schemes of reduction
    case 5: case 6: case 7: case 8: return take(&preference->alignment[attribute - 5], from, bytes);
    default: return CANNOT;
  }
}

API int cublasLtMatmulAlgoGetHeuristic(void* handle, const Product* product, const Layout* a, const Layout* b,
                                       const Layout* c, const Layout* d, const Preference* preference,
                                       int wanted, Found* found, int* count) {
  Call call;
  *count = 0;
  if (call.code || !handle) return NO_HANDLE;
  if (wanted < 1) return BAD_VALUE;
  if (Status status = check(*product, *a, *b, *c, *d)) return status;
  Found& first = found[0];
  std::memset(&first, 0, sizeof first);
  first.algorithm.mark = MARK;
  first.algorithm.workspace = first.workspace = std::min<uint64_t>(preference->workspace, WORKSPACE);
  std::memcpy(first.algorithm.alignment, preference->alignment, sizeof preference->alignment);
  first.waves = 1;
  *count = 1;
  return OK;
}

API int cublasLtMatmul(void* handle, const Product* product, const void* alpha, const void* a_at,
                       const Layout* a, const void* b_at, const Layout* b, const void* beta, const void* c_at,
                       const Layout* c, void* d_at, const Layout* d, const Algorithm* algorithm,
                       void* workspace, size_t workspace_bytes, void* stream_handle) {
  Call call;
  if (call.code || !handle) return call.code ? FAILED : NO_HANDLE;
  auto stream = machine().streams.get(stream_handle);
  if (!stream || stream->closed || *static_cast<int*>(handle) != stream->card) return BAD_VALUE;
  if (!algorithm || algorithm->mark != MARK) return BAD_VALUE;
  if (Status status = check(*product, *a, *b, *c, *d)) return status;
  auto all = std::make_shared<Asked>(Asked{*product, *a, *b, *c, *d, a_at, b_at, c_at, d_at, 0, 0,
                                           static_cast<char*>(workspace), workspace_bytes});
  bool wide = product->compute == COMPUTE_F64;
  all->alpha = wide ? *static_cast<const double*>(alpha) : double(*static_cast<const float*>(alpha));
  all->beta = wide ? *static_cast<const double*>(beta) : double(*static_cast<const float*>(beta));
  if (all->product.bias_type < 0) all->product.bias_type = d->type;
  if (Status status = check_pointers(*all, *algorithm)) return status;
  // Only what the algorithm asked for is its own to write on.
  all->workspace_bytes = algorithm->workspace;
  auto work = std::make_shared<Work>();
  work->name = "product";
  work->card = stream->card;
  work->is_launch = true;
  work->run = [all, wide](Random&) {
    return run_guarded([&] { wide ? multiply<double>(*all) : multiply<float>(*all); });
  };
  return machine().submit(*stream, work) == SUCCESS ? OK : FAILED;
}
