#include "model/rotation.h"

#include <ggml-cpu.h>
#include <ggml.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace pith::test {

namespace {

constexpr int kWidth = 16;

/// What ggml makes of `x` at a position.
std::vector<float> by_ggml(const RopeConfig& rope, std::vector<float> factors, int position,
                           const std::vector<float>& x) {
  ggml_context* ctx =
      ggml_init({.mem_size = size_t{1} << 20, .mem_buffer = nullptr, .no_alloc = false});
  ggml_tensor* in = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, kWidth, 1, 1);
  std::copy(x.begin(), x.end(), static_cast<float*>(in->data));
  ggml_tensor* at = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 1);
  *static_cast<int32_t*>(at->data) = position;
  ggml_tensor* freqs = nullptr;
  if (!factors.empty()) {
    freqs = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, int64_t(factors.size()));
    std::copy(factors.begin(), factors.end(), static_cast<float*>(freqs->data));
  }
  ggml_tensor* out = ggml_rope_ext(ctx, in, at, freqs, rope.n_dims, rope.type, rope.n_ctx_orig,
                                   rope.freq_base, rope.freq_scale, rope.ext_factor,
                                   rope.attn_factor, rope.beta_fast, rope.beta_slow);
  ggml_cgraph* graph = ggml_new_graph(ctx);
  ggml_build_forward_expand(graph, out);
  ggml_graph_compute_with_ctx(ctx, graph, 1);
  const auto* result = static_cast<const float*>(out->data);
  std::vector<float> copy(result, result + kWidth);
  ggml_free(ctx);
  return copy;
}

/// The same from the frequencies.
std::vector<float> by_rotation(const Rotation& rotation, int position, std::vector<float> x) {
  const size_t pairs = rotation.frequency.size();
  for (size_t j = 0; j < pairs; ++j) {
    float& a = x[rotation.neighbours ? 2 * j : j];
    float& b = x[rotation.neighbours ? 2 * j + 1 : j + pairs];
    const double angle = position * double(rotation.frequency[j]);
    const double c = std::cos(angle), s = std::sin(angle), u = double(a), v = double(b);
    a = float(double(rotation.magnitude) * (c * u - s * v));
    b = float(double(rotation.magnitude) * (s * u + c * v));
  }
  return x;
}

void expect_agreement(const RopeConfig& rope, const std::vector<float>& factors = {}) {
  std::vector<float> x(kWidth);
  for (int i = 0; i < kWidth; ++i) x[size_t(i)] = std::sin(float(3 * i + 1));
  for (const int position : {0, 1, 77, 3000}) {
    const auto expected = by_ggml(rope, factors, position, x);
    const auto found = by_rotation(rotation_of(rope, factors), position, x);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 2e-3) << position << " " << i;
  }
}

RopeConfig plain() { return {.type = 0, .n_dims = kWidth, .n_ctx_orig = 2048}; }

TEST(Rotation, AgreesWithGgmlForBothLayouts) {
  RopeConfig rope = plain();
  expect_agreement(rope);
  rope.type = GGML_ROPE_TYPE_NEOX;
  expect_agreement(rope);
}

TEST(Rotation, LeavesNumbersAfterThePairs) {
  RopeConfig rope = plain();
  rope.n_dims = 8;
  expect_agreement(rope);
}

TEST(Rotation, KnowsLinearScalingAndFactors) {
  RopeConfig rope = plain();
  rope.freq_scale = 0.25F;
  expect_agreement(rope, {1, 1, 2, 2, 4, 4, 8, 8});
}

TEST(Rotation, KnowsYarn) {
  RopeConfig rope = plain();
  rope.freq_scale = 0.25F;
  rope.ext_factor = 1;
  rope.attn_factor = 0.9F;
  expect_agreement(rope);
}

}  // namespace

}  // namespace pith::test
