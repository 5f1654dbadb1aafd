#include <ggml-cpp.h>
#include <ggml-cpu.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/graph.h"
#include "reference/attention.hpp"

namespace pith::test {
namespace {

constexpr std::array kLengths = {1, 7, 31, 33, 500};  // entries of the KV heads before the step
constexpr int kLongest = 500;

struct Case {
  AttentionPath path;
  int n_tokens, group, head_dim;
  bool log_weights;
  KvType type = KvType::f32;
};

std::vector<float> normals(size_t count, float size, std::mt19937& random) {
  std::normal_distribution<float> normal(0, size);
  std::vector<float> out(count);
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

/// A layer whose heads were compressed to kLengths, with log-weights from -7 to 7 where wanted.
KvCache ragged_cache(const Case& c, std::mt19937& random) {
  KvCache cache({.n_layer = 1,
                 .n_head_kv = int(kLengths.size()),
                 .head_dim = c.head_dim,
                 .k_type = c.type,
                 .v_type = c.type,
                 .n_ctx = 700});
  for (int h = 0; h < int(kLengths.size()); ++h) {
    for (int i = 0; i < kLongest; ++i) {
      const auto key = normals(size_t(c.head_dim), 1, random);
      const auto value = normals(size_t(c.head_dim), 1, random);
      cache.write_entry(0, h, i, key.data(), value.data());
    }
  }
  cache.commit_append(kLongest);
  std::uniform_real_distribution<float> log_weight(-7, 7);
  Plan plan;
  for (const int length : kLengths) {
    RowPlan& row = plan.rows.emplace_back();
    for (int i = 0; i < length; ++i) {
      row.keep.push_back(kLongest - length + i);
      if (c.log_weights) row.log_weight.push_back(log_weight(random));
    }
  }
  cache.apply(plan);
  return cache;
}

/// One step's attention in a graph of its own.
struct Step {
  Step(const Case& c, KvCache& cache, std::mt19937& random) {
    config.shape = {.n_layer = 1,
                    .n_head = c.group * int(kLengths.size()),
                    .n_head_kv = int(kLengths.size()),
                    .head_dim = c.head_dim};
    config.attention_scale = 1 / std::sqrt(float(c.head_dim));
    const auto ops = c.path == AttentionPath::ragged
                         ? make_ragged_ops(config, 2)
                         : make_portable_ops(config, c.path == AttentionPath::portable);
    const ggml_context_ptr ctx(ggml_init({size_t{1} << 20, nullptr, true}));
    ggml_cgraph* graph = ggml_new_graph(ctx.get());
    auto input = [&](int heads) {
      ggml_tensor* t = ggml_new_tensor_3d(ctx.get(), GGML_TYPE_F32, c.head_dim, heads, c.n_tokens);
      ggml_set_input(t);
      return t;
    };
    ggml_tensor* queries = input(config.shape.n_head);
    ggml_tensor* keys = input(config.shape.n_head_kv);
    ggml_tensor* values = input(config.shape.n_head_kv);
    ops->begin(ctx.get(), cache, c.n_tokens);
    ggml_tensor* result = ops->build(ctx.get(), graph, 0, queries, keys, values, true);
    ggml_set_output(result);
    ggml_build_forward_expand(graph, result);
    const ggml_gallocr_ptr memory(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
    EXPECT_TRUE(ggml_gallocr_alloc_graph(memory.get(), graph));

    q = normals(size_t(ggml_nelements(queries)), 3, random);
    ggml_backend_tensor_set(queries, q.data(), 0, ggml_nbytes(queries));
    for (ggml_tensor* t : {keys, values}) {
      const auto fresh = normals(size_t(ggml_nelements(t)), 1, random);
      ggml_backend_tensor_set(t, fresh.data(), 0, ggml_nbytes(t));
    }
    KvCache* const only = &cache;
    ops->bind({&only, 1}, c.n_tokens);
    const ggml_backend_ptr backend(ggml_backend_cpu_init());
    ggml_backend_cpu_set_n_threads(backend.get(), 2);
    EXPECT_EQ(ggml_backend_graph_compute(backend.get(), graph), GGML_STATUS_SUCCESS);
    out.resize(q.size());
    ggml_backend_tensor_get(result, out.data(), 0, ggml_nbytes(result));
  }

  ModelConfig config;
  std::vector<float> q, out;
};

/// The naive reference over what the cache holds after the step stored its entries.
std::vector<double> expected(const Case& c, const KvCache& cache, const Step& step) {
  std::vector<HeadEntries> heads;
  std::vector<std::vector<int>> visible;
  for (const int length : kLengths) {
    auto& row = visible.emplace_back();
    for (int t = 0; t < c.n_tokens; ++t) row.push_back(length + t + 1);
  }
  for (int h = 0; h < int(kLengths.size()); ++h) {
    const auto weights = cache.log_weights(0, h);
    heads.push_back({.data = cache.entries(0, h),
                     .log_weights = weights.empty() ? nullptr : weights.data(),
                     .n_weights = int(weights.size()),
                     .visible = visible[size_t(h)].data()});
  }
  const CacheGeometry& g = cache.geometry();
  return reference::attend({.n_tokens = c.n_tokens,
                            .n_head = step.config.shape.n_head,
                            .n_head_kv = step.config.shape.n_head_kv,
                            .head_dim = c.head_dim,
                            .k_type = g.k_type,
                            .v_type = g.v_type,
                            .stride = g.entry_bytes(),
                            .value_offset = g.key_bytes(),
                            .scale = step.config.attention_scale},
                           heads, step.q.data());
}

double worst_error(const Case& c) {
  std::mt19937 random(uint32_t(c.head_dim * 100 + c.group * 10 + c.n_tokens));
  KvCache cache = ragged_cache(c, random);
  const Step step(c, cache, random);
  const auto reference = expected(c, cache, step);
  double worst = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    worst = std::max(worst, std::abs(step.out[i] - reference[i]));
  }
  return worst;
}

void expect_all(AttentionPath path, bool log_weights, double tolerance, KvType type = KvType::f32) {
  for (const int group : {1, 3, 8}) {
    for (const int head_dim : {32, 64, 128, 256}) {
      for (const int n_tokens : {1, 7}) {
        EXPECT_LE(worst_error({path, n_tokens, group, head_dim, log_weights, type}), tolerance)
            << "group " << group << ", head size " << head_dim << ", tokens " << n_tokens;
      }
    }
  }
}

TEST(AttentionOps, RaggedEqualsTheReference) {
  expect_all(AttentionPath::ragged, true, 2e-5);
  expect_all(AttentionPath::ragged, true, 2e-5, KvType::f16);
  expect_all(AttentionPath::ragged, true, 2e-5, KvType::q8_0);
}

TEST(AttentionOps, ProductsEqualTheReference) { expect_all(AttentionPath::products, true, 2e-5); }

TEST(AttentionOps, PortableEqualsTheReference) { expect_all(AttentionPath::portable, false, 1e-4); }

/// F16 log-weights near 7 are off by up to 2e-3, which moves weights by as much.
TEST(AttentionOps, PortableRoundsLogWeightsToHalf) {
  expect_all(AttentionPath::portable, true, 1e-2);
}

/// ggml's CPU kernel sums F16 values in F16 for one token.
TEST(AttentionOps, PortableOverAHalfPrecisionCache) {
  expect_all(AttentionPath::portable, false, 2e-2, KvType::f16);
}

/// ggml's CPU kernels round the queries to bytes, too, before they multiply them with such keys.
TEST(AttentionOps, GgmlOverACacheOfBytes) {
  expect_all(AttentionPath::portable, false, 0.1, KvType::q8_0);
  expect_all(AttentionPath::products, true, 0.1, KvType::q8_0);
}

}  // namespace
}  // namespace pith::test
