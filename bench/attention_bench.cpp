// Times one layer's attention as a ggml graph runs it: pith's kernel over ragged heads, against
// ggml_flash_attn_ext on the same entries (KV heads on dimension 3, as the portable path has it)
// and against mul_mat + soft_max_ext + mul_mat on position-major keys and transposed values, which
// is how llama.cpp keeps its cache with flash attention off. All in one run, on the same threads,
// with an f16 cache. Usage: attention_bench [threads]
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "base/simd.h"
#include "engine/attention.h"
#include "reference/attention.hpp"

namespace {

using pith::AttentionShape;
using pith::HeadEntries;
using pith::KvType;
using pith::RaggedAttention;

// Of this thread, which works or waits actively in every op: what other processes take of the
// machine does not count.
double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

struct Case {
  int n_head_kv, group, head_dim, n_tokens, depth;

  int entries() const { return depth + n_tokens; }
  int padded() const { return (entries() + 255) / 256 * 256; }
  int n_head() const { return n_head_kv * group; }
  size_t layer_bytes() const { return size_t(n_head_kv) * size_t(padded()) * size_t(head_dim) * 4; }
  // As many layers as a model has, so that decoding finds its cache as cold as it would there.
  int layers() const {
    return n_tokens > 1 ? 1 : int(std::min(size_t{30}, (size_t{256} << 20) / layer_bytes()));
  }
  double flops() const {  // of the causal part only
    const double seen = double(n_tokens) * (depth + (n_tokens + 1) / 2.0);
    return 4.0 * n_head() * head_dim * seen;
  }
  double bytes() const { return 4.0 * n_head_kv * head_dim * entries(); }
};

struct Deleter {
  void operator()(ggml_context* p) const { ggml_free(p); }
  void operator()(ggml_backend* p) const { ggml_backend_free(p); }
  void operator()(ggml_backend_buffer* p) const { ggml_backend_buffer_free(p); }
  void operator()(ggml_gallocr* p) const { ggml_gallocr_free(p); }
  void operator()(std::byte* p) const { std::free(p); }
  void operator()(ggml_threadpool* p) const { ggml_threadpool_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Deleter>;

Owned<ggml_context> make_context() {
  return Owned<ggml_context>(
      ggml_init({ggml_tensor_overhead() * 2048 + ggml_graph_overhead() * 8, nullptr, true}));
}

// Keys, values, queries and masks of a case, in the layouts of all contestants.
class Inputs {
 public:
  Inputs(const Case& c, ggml_backend_t backend)
      : c_(c), context_(make_context()), cache_context_(make_context()) {
    ggml_context* ctx = context_.get();
    q = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, c.head_dim, c.n_head(), c.n_tokens);
    mask = ggml_new_tensor_4d(ctx, GGML_TYPE_F16, c.padded(), c.n_tokens, 1, c.n_head_kv);
    for (int l = 0; l < c.layers(); ++l) {
      entries.push_back(ggml_new_tensor_4d(cache_context_.get(), GGML_TYPE_F16, c.head_dim, 2,
                                           c.padded(), c.n_head_kv));
      keys.push_back(ggml_new_tensor_3d(ctx, GGML_TYPE_F16, c.head_dim, c.n_head_kv, c.padded()));
      values.push_back(ggml_new_tensor_3d(ctx, GGML_TYPE_F16, c.padded(), c.head_dim, c.n_head_kv));
    }
    buffer_.reset(ggml_backend_alloc_ctx_tensors(ctx, backend));
    allocate_entries();
    fill();
  }

  ggml_tensor *q, *mask;
  std::vector<ggml_tensor*> entries;  // [head_dim, key then value, entries, n_head_kv]
  std::vector<ggml_tensor*> keys;     // [head_dim, n_head_kv, entries]
  std::vector<ggml_tensor*> values;   // [entries, head_dim, n_head_kv]
  std::vector<int> visible;           // [n_tokens]

  std::vector<HeadEntries> heads(size_t layer) const {
    std::vector<HeadEntries> heads;
    for (int h = 0; h < c_.n_head_kv; ++h) {
      const auto* base = static_cast<const std::byte*>(entries[layer]->data);
      heads.push_back({base + size_t(h) * entries[layer]->nb[3], nullptr, 0, visible.data()});
    }
    return heads;
  }
  AttentionShape shape() const {
    return {c_.n_tokens,
            c_.n_head(),
            c_.n_head_kv,
            c_.head_dim,
            KvType::f16,
            KvType::f16,
            size_t(c_.head_dim) * 4,
            size_t(c_.head_dim) * 2,
            scale()};
  }
  float scale() const { return 1 / std::sqrt(float(c_.head_dim)); }

 private:
  void fill() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<ggml_fp16_t> noise(1 << 16);
    for (auto& x : noise) x = ggml_fp32_to_fp16(normal(random));
    auto* queries = static_cast<float*>(q->data);
    std::generate_n(queries, ggml_nelements(q), [&] { return 2 * normal(random); });
    for (int t = 0; t < c_.n_tokens; ++t) visible.push_back(c_.depth + t + 1);
    auto* masked = static_cast<ggml_fp16_t*>(mask->data);
    const ggml_fp16_t zero = ggml_fp32_to_fp16(0), nothing = ggml_fp32_to_fp16(-INFINITY);
    for (int h = 0; h < c_.n_head_kv; ++h) {
      for (int t = 0; t < c_.n_tokens; ++t) {
        for (int i = 0; i < c_.padded(); ++i) *masked++ = i < visible[size_t(t)] ? zero : nothing;
      }
    }
    for (size_t l = 0; l < entries.size(); ++l) fill_layer(l, noise);
  }

  void fill_layer(size_t l, const std::vector<ggml_fp16_t>& noise) {
    auto* entry = static_cast<ggml_fp16_t*>(entries[l]->data);
    auto* key = static_cast<ggml_fp16_t*>(keys[l]->data);
    auto* value = static_cast<ggml_fp16_t*>(values[l]->data);
    const size_t dim = size_t(c_.head_dim), n = size_t(c_.padded()), heads = size_t(c_.n_head_kv);
    size_t next = l * 977;
    for (size_t h = 0; h < heads; ++h) {
      for (size_t i = 0; i < n; ++i) {
        for (size_t d = 0; d < 2 * dim; ++d) {
          const ggml_fp16_t x = noise[(next += 1 + (next >> 16 & 1)) & 0xffff];
          *entry++ = x;
          if (d < dim) key[(i * heads + h) * dim + d] = x;
          if (d >= dim) value[(h * dim + d - dim) * n + i] = x;
        }
      }
    }
  }

  // Heads begin on pages, as in pith's cache.
  void allocate_entries() {
    const size_t layer = ggml_nbytes(entries[0]);
    pages_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, layer * entries.size())));
    cache_.reset(ggml_backend_cpu_buffer_from_ptr(pages_.get(), layer * entries.size()));
    for (size_t l = 0; l < entries.size(); ++l) {
      ggml_backend_tensor_alloc(cache_.get(), entries[l], pages_.get() + l * layer);
    }
  }

  Case c_;
  Owned<ggml_context> context_, cache_context_;
  Owned<std::byte> pages_;
  Owned<ggml_backend_buffer> buffer_, cache_;
};

// One layer as the engine runs it: an op that plans, then one that all threads run.
struct RaggedLayer {
  RaggedAttention* attention;
  AttentionShape shape;
  std::vector<HeadEntries> heads;
  int threads;

  static void prepare(ggml_tensor*, int, int, void* self) {
    auto* layer = static_cast<RaggedLayer*>(self);
    layer->attention->prepare(layer->shape, layer->heads, layer->threads);
  }
  static void run(ggml_tensor* out, int ith, int, void* self) {
    static_cast<RaggedLayer*>(self)->attention->run(static_cast<const float*>(out->src[0]->data),
                                                    static_cast<float*>(out->data), ith);
  }
};

ggml_tensor* ragged(ggml_context* ctx, const Inputs& in, RaggedLayer& layer) {
  ggml_tensor* plan =
      ggml_custom_4d(ctx, GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, RaggedLayer::prepare, 1, &layer);
  ggml_tensor* args[] = {in.q, plan};
  return ggml_custom_4d(ctx, GGML_TYPE_F32, in.q->ne[0], in.q->ne[1], in.q->ne[2], 1, args, 2,
                        RaggedLayer::run, GGML_N_TASKS_MAX, &layer);
}

// Result [head_dim, group, n_tokens, n_head_kv].
ggml_tensor* flash(ggml_context* ctx, const Inputs& in, size_t l, const Case& c) {
  const ggml_tensor* q = in.q;
  ggml_tensor* kv = in.entries[l];
  ggml_tensor* q4 = ggml_view_4d(ctx, in.q, c.head_dim, c.n_tokens, c.group, c.n_head_kv, q->nb[2],
                                 q->nb[1], q->nb[1] * size_t(c.group), 0);
  const auto view = [&](size_t offset) {
    return ggml_view_4d(ctx, kv, c.head_dim, c.padded(), 1, c.n_head_kv, kv->nb[2], kv->nb[3],
                        kv->nb[3], offset);
  };
  return ggml_flash_attn_ext(ctx, q4, view(0), view(kv->nb[1]), in.mask, in.scale(), 0, 0);
}

// Result [head_dim, n_tokens, n_head].
ggml_tensor* unfused(ggml_context* ctx, const Inputs& in, size_t l) {
  ggml_tensor* k = ggml_permute(ctx, in.keys[l], 0, 2, 1, 3);
  ggml_tensor* q = ggml_permute(ctx, in.q, 0, 2, 1, 3);
  ggml_tensor* mask = ggml_view_2d(ctx, in.mask, in.mask->ne[0], in.mask->ne[1], in.mask->nb[1], 0);
  ggml_tensor* weights = ggml_soft_max_ext(ctx, ggml_mul_mat(ctx, k, q), mask, in.scale(), 0);
  return ggml_mul_mat(ctx, in.values[l], weights);
}

// Every thread reads its share of a layer's entries.
void read_entries(ggml_tensor* out, int ith, int nth, void*) {
  const ggml_tensor* entries = out->src[0];
  const size_t floats = ggml_nbytes(entries) / sizeof(float), step = 8 * pith::simd::kWidth;
  const auto* data = static_cast<const float*>(entries->data);
  pith::simd::F32 sums[8] = {};
  const size_t steps = floats / step;
  for (size_t i = steps * size_t(ith) / size_t(nth); i < steps * size_t(ith + 1) / size_t(nth);
       ++i) {
#pragma GCC unroll 8
    for (size_t k = 0; k < 8; ++k) {
      sums[k] =
          pith::simd::max(sums[k], pith::simd::load(data + i * step + k * pith::simd::kWidth));
    }
  }
  for (size_t k = 1; k < 8; ++k) sums[0] = pith::simd::max(sums[0], sums[k]);
  static_cast<float*>(out->data)[ith % 64] = pith::simd::max_lane(sums[0]);
}

ggml_tensor* read(ggml_context* ctx, const Inputs& in, size_t l) {
  ggml_tensor* args[] = {in.entries[l]};
  return ggml_custom_4d(ctx, GGML_TYPE_F32, 64, 1, 1, 1, args, 1, read_entries, GGML_N_TASKS_MAX,
                        nullptr);
}

// A graph of the same operation for all layers.
class Contestant {
 public:
  using Build = std::function<ggml_tensor*(ggml_context*, size_t layer)>;

  Contestant(ggml_backend_t backend, size_t layers, const Build& build)
      : backend_(backend),
        context_(make_context()),
        allocator_(ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend))),
        layers_(layers) {
    graph_ = ggml_new_graph(context_.get());
    for (size_t l = 0; l < layers; ++l) {
      ggml_tensor* out = build(context_.get(), l);
      if (l == 0) ggml_set_output(first_ = out);
      ggml_build_forward_expand(graph_, out);
    }
    if (!ggml_gallocr_alloc_graph(allocator_.get(), graph_)) std::exit(1);
  }

  /// Of the first layer.
  const ggml_tensor* compute() {
    if (ggml_backend_graph_compute(backend_, graph_) != GGML_STATUS_SUCCESS) std::exit(1);
    return first_;
  }
  void measure() {
    const double begin = cpu_seconds();
    compute();
    best_ = std::min(best_, (cpu_seconds() - begin) / double(layers_));
  }
  double seconds() const { return best_; }

 private:
  ggml_backend_t backend_;
  Owned<ggml_context> context_;
  Owned<ggml_gallocr> allocator_;
  ggml_cgraph* graph_;
  ggml_tensor* first_ = nullptr;
  size_t layers_;
  double best_ = std::numeric_limits<double>::infinity();
};

// Largest difference of the first and the last token from the reference; `at` gives the element of
// the result for (token, query head, dimension).
template <typename At>
double error(const Inputs& in, const Case& c, const At& at) {
  double worst = 0;
  std::vector<HeadEntries> heads = in.heads(0);
  AttentionShape shape = in.shape();
  shape.n_tokens = 1;
  for (const int t : {0, c.n_tokens - 1}) {
    for (HeadEntries& head : heads) head.visible = &in.visible[size_t(t)];
    const auto* q =
        static_cast<const float*>(in.q->data) + size_t(t) * size_t(c.n_head() * c.head_dim);
    const std::vector<double> expected = pith::reference::attend(shape, heads, q);
    for (int h = 0; h < c.n_head(); ++h) {
      for (int d = 0; d < c.head_dim; ++d) {
        worst =
            std::max(worst, std::abs(expected[size_t(h * c.head_dim + d)] - double(at(t, h, d))));
      }
    }
  }
  return worst;
}

float element(const ggml_tensor* t, int i0, int i1, int i2, int i3) {
  float x;
  std::memcpy(&x,
              static_cast<const char*>(t->data) + size_t(i0) * t->nb[0] + size_t(i1) * t->nb[1] +
                  size_t(i2) * t->nb[2] + size_t(i3) * t->nb[3],
              sizeof x);
  return x;
}

[[gnu::noinline]] pith::simd::F32 multiply_add(int rounds) {
  using namespace pith::simd;
  F32 sums[12];  // differ, or the compiler would make them one
#pragma GCC unroll 12
  for (int k = 0; k < 12; ++k) sums[k] = broadcast(float(k));
  const F32 a = broadcast(0.999F), b = broadcast(0.001F);
  for (int i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < 12; ++k) sums[k] = fma(sums[k], a, b);
  }
#pragma GCC unroll 12
  for (int k = 1; k < 12; ++k) sums[0] += sums[k];
  return sums[0];
}

// Floating point operations a second of one core that does nothing but multiply and add.
double peak_flops() {
  constexpr int kRounds = 200'000;
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < 200; ++repeat) {
    const double begin = cpu_seconds();
    const pith::simd::F32 sums = multiply_add(kRounds);
    best = std::min(best, cpu_seconds() - begin);
    if (!(pith::simd::sum_lanes(sums) > 0)) std::exit(1);
  }
  return 24.0 * pith::simd::kWidth * kRounds / best;
}

void run_case(const Case& c, ggml_backend_t backend, int threads, double peak) {
  const Inputs in(c, backend);
  RaggedAttention attention;
  std::vector<RaggedLayer> layers;
  for (int l = 0; l < c.layers(); ++l) {
    layers.push_back({&attention, in.shape(), in.heads(size_t(l)), threads});
  }
  Contestant ours(backend, layers.size(),
                  [&](auto* ctx, size_t l) { return ragged(ctx, in, layers[l]); });
  Contestant fused(backend, layers.size(),
                   [&](auto* ctx, size_t l) { return flash(ctx, in, l, c); });
  Contestant plain(backend, layers.size(),
                   [&](auto* ctx, size_t l) { return unfused(ctx, in, l); });
  Contestant reading(backend, layers.size(), [&](auto* ctx, size_t l) { return read(ctx, in, l); });

  const ggml_tensor *a = ours.compute(), *b = fused.compute(), *p = plain.compute();
  const double ours_error =
      error(in, c, [&](int t, int h, int d) { return element(a, d, h, t, 0); });
  const double fused_error =
      error(in, c, [&](int t, int h, int d) { return element(b, d, h % c.group, t, h / c.group); });
  const double plain_error =
      error(in, c, [&](int t, int h, int d) { return element(p, d, t, h, 0); });
  if (!(ours_error < 1e-5)) {
    std::fprintf(stderr, "pith's kernel is off by %g\n", ours_error);
    std::exit(1);
  }
  const auto begin = std::chrono::steady_clock::now();
  int repeats = 0;
  while (repeats++ < 5 || std::chrono::steady_clock::now() - begin < std::chrono::seconds(4)) {
    for (Contestant* contestant : {&ours, &fused, &plain, &reading}) contestant->measure();
  }
  const double seconds = ours.seconds();
  std::printf(
      "%2d x %d, D %3d | %3d at %5d | %8.3f | %8.3f %5.2f | %8.3f %5.2f | %5.1f of %5.1f | %6.1f "
      "(%2.0f %%) | %.0e %.0e %.0e\n",
      c.n_head_kv, c.group, c.head_dim, c.n_tokens, c.depth, seconds * 1e3, fused.seconds() * 1e3,
      fused.seconds() / seconds, plain.seconds() * 1e3, plain.seconds() / seconds,
      c.bytes() / seconds / 1e9, double(c.layer_bytes()) / reading.seconds() / 1e9,
      c.flops() / seconds / 1e9, 100 * c.flops() / seconds / peak / threads, ours_error,
      fused_error, plain_error);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1 || threads > 512) {
    std::fprintf(stderr, "usage: attention_bench [threads]\n");
    return 2;
  }
  const Owned<ggml_backend> backend(ggml_backend_cpu_init());
  const ggml_threadpool_params params = ggml_threadpool_params_default(threads);
  ggml_threadpool_params pool_params = params;
  const Owned<ggml_threadpool> pool(ggml_threadpool_new(&pool_params));
  ggml_backend_cpu_set_n_threads(backend.get(), threads);
  ggml_backend_cpu_set_threadpool(backend.get(), pool.get());
  const double peak = peak_flops();
  std::printf("%d threads, peak of one: %.0f GFLOP/s; ms a layer, the others' factor over pith\n\n",
              threads, peak / 1e9);
  std::printf(
      "heads        | tokens      | pith     | flash          | flash off      | GB/s          | "
      "GFLOP/s        | errors\n");
  for (const int entries : {512, 2048, 4096, 7680}) {
    run_case({3, 3, 64, 1, entries - 1}, backend.get(), threads, peak);
  }
  for (const int entries : {512, 2048, 4096, 7680}) {
    run_case({8, 4, 128, 1, entries - 1}, backend.get(), threads, peak);
  }
  for (const int depth : {0, 2048, 4096, 7168})
    run_case({3, 3, 64, 512, depth}, backend.get(), threads, peak);
  for (const int depth : {0, 2048, 4096, 7168})
    run_case({8, 4, 128, 512, depth}, backend.get(), threads, peak);
  return 0;
}
