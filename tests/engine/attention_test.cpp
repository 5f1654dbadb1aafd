#include "engine/attention.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <thread>

#include "base/simd.h"
#include "cache/kv_type.h"
#include "reference/attention.hpp"

namespace pith {
namespace {

// On values of size 1; F32 sums of 256 products are that good.
constexpr double kTolerance = 1e-5;

struct Options {
  int n_tokens = 1;
  int group = 3;
  int head_dim = 64;
  KvType k_type = KvType::f16, v_type = KvType::f16;
  std::vector<int> lengths = {33, 1, 500};  // of the KV heads, with the new tokens
  bool log_weights = true;                  // on the first two thirds, from -7 to 7
  float logit_size = 3;
};

// A layer with random entries; token t of n sees all but the last n - 1 - t entries of each head.
struct Layer {
  explicit Layer(const Options& options, uint32_t seed = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> log_weight(-7, 7);
    const int n_head_kv = int(options.lengths.size());
    const auto bytes = [&](KvType type) { return kv_vector_bytes(type, options.head_dim); };
    const size_t value_offset = bytes(options.k_type);
    const float scale = 1 / std::sqrt(float(options.head_dim));
    shape = {options.n_tokens,
             n_head_kv * options.group,
             n_head_kv,
             options.head_dim,
             options.k_type,
             options.v_type,
             value_offset + bytes(options.v_type),
             value_offset,
             scale};
    q.resize(size_t(shape.n_tokens) * size_t(shape.n_head) * size_t(shape.head_dim));
    for (float& x : q) x = options.logit_size * normal(random);
    for (const int length : options.lengths) {
      auto& entries = data.emplace_back(size_t(length) * shape.stride);
      for (int i = 0; i < length; ++i) {
        std::byte* entry = entries.data() + size_t(i) * shape.stride;
        for (const auto& [type, at] :
             {std::pair(shape.k_type, entry), std::pair(shape.v_type, entry + value_offset)}) {
          std::vector<float> numbers(size_t(shape.head_dim));
          for (float& x : numbers) x = normal(random);
          kv_from_float(type, numbers.data(), at, shape.head_dim);
        }
      }
      auto& weights = log_weights.emplace_back(options.log_weights ? length * 2 / 3 : 0);
      for (float& x : weights) x = log_weight(random);
      auto& seen = visible.emplace_back();
      for (int t = 0; t < shape.n_tokens; ++t) {
        seen.push_back(std::max(0, length - (shape.n_tokens - 1 - t)));
      }
    }
  }

  std::vector<HeadEntries> heads() const {
    std::vector<HeadEntries> heads;
    for (size_t h = 0; h < data.size(); ++h) {
      heads.push_back({data[h].data(), log_weights[h].empty() ? nullptr : log_weights[h].data(),
                       int(log_weights[h].size()), visible[h].data()});
    }
    return heads;
  }

  AttentionShape shape;
  std::vector<float> q;
  std::vector<std::vector<std::byte>> data;
  std::vector<std::vector<float>> log_weights;
  std::vector<std::vector<int>> visible;
};

std::vector<float> run(RaggedAttention& attention, const Layer& layer, int threads = 1,
                       std::span<const HeadEntries> own = {}) {
  const std::vector<HeadEntries> heads = layer.heads();
  std::vector<float> out(layer.q.size(), std::nanf(""));
  attention.prepare(layer.shape, heads, threads, own);
  std::vector<std::jthread> helpers;
  for (int i = 1; i < threads; ++i) {
    helpers.emplace_back([&, i] { attention.run(layer.q.data(), out.data(), i); });
  }
  attention.run(layer.q.data(), out.data(), 0);
  return out;
}

std::vector<float> run(const Layer& layer, int threads = 1) {
  RaggedAttention attention;
  return run(attention, layer, threads);
}

// Largest difference from the reference, on values of size 1.
double error(const Layer& layer, const std::vector<float>& out) {
  const std::vector<double> expected =
      reference::attend(layer.shape, layer.heads(), layer.q.data());
  double worst = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!std::isfinite(out[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(out[i] - expected[i]));
  }
  return worst;
}

TEST(Attention, RaggedLengthsForEveryNumberOfTokens) {
  for (const int n_tokens : {1, 2, 7, 64, 100}) {
    SCOPED_TRACE(n_tokens);
    const Layer layer({.n_tokens = n_tokens, .lengths = {1, 7, 31, 33, 500}});
    EXPECT_LT(error(layer, run(layer)), kTolerance);
  }
}

TEST(Attention, HeadSizesAndGroups) {
  for (const int head_dim : {32, 40, 64, 80, 96, 128, 256}) {
    for (const int group : {1, 3, 8}) {
      for (const int n_tokens : {1, 33}) {
        SCOPED_TRACE(testing::Message() << head_dim << " x " << group << ", tokens " << n_tokens);
        const Layer layer(
            {.n_tokens = n_tokens, .group = group, .head_dim = head_dim, .lengths = {70, 37}});
        EXPECT_LT(error(layer, run(layer)), kTolerance);
      }
    }
  }
}

TEST(Attention, KeyAndValueTypesMix) {
  constexpr std::array kTypes = {KvType::f32, KvType::f16, KvType::q8_0};
  for (const KvType k_type : kTypes) {
    for (const KvType v_type : kTypes) {
      for (const int head_dim : {32, 64, 96, 256}) {
        for (const int n_tokens : {1, 5, 40}) {
          const Layer layer(
              {.n_tokens = n_tokens, .head_dim = head_dim, .k_type = k_type, .v_type = v_type});
          EXPECT_LT(error(layer, run(layer)), kTolerance);
        }
      }
    }
  }
}

TEST(Attention, WithoutLogWeights) {
  for (const int n_tokens : {1, 40}) {
    const Layer layer({.n_tokens = n_tokens, .log_weights = false});
    EXPECT_LT(error(layer, run(layer)), kTolerance);
  }
}

TEST(Attention, LogWeightCountsAsThatManyEntries) {
  Layer once({.lengths = {20}, .log_weights = false});
  Layer thrice = once;
  once.log_weights[0].assign(20, std::log(3.0F));
  once.log_weights[0].resize(10);  // later entries have log-weight 0
  auto& entries = thrice.data[0];
  const std::vector<std::byte> first(entries.begin(),
                                     entries.begin() + std::ptrdiff_t(10 * once.shape.stride));
  for (int copy = 0; copy < 2; ++copy) entries.insert(entries.end(), first.begin(), first.end());
  thrice.visible[0] = {40};
  const std::vector<float> a = run(once), b = run(thrice);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 3e-6);
}

TEST(Attention, VisibleNeedNotAscend) {
  for (const int n_tokens : {3, 50}) {
    Layer layer({.n_tokens = n_tokens, .lengths = {300, 70}});
    for (int t = 0; t < n_tokens; ++t) {
      layer.visible[0][size_t(t)] = (t * 131) % 301;
      layer.visible[1][size_t(t)] = (71 - t % 72) % 71;
    }
    EXPECT_LT(error(layer, run(layer)), kTolerance);
  }
}

TEST(Attention, TokensThatSeeNothingGetZeros) {
  for (const int n_tokens : {1, 2, 64}) {
    Layer layer({.n_tokens = n_tokens, .lengths = {80, 80}});
    layer.visible[0].assign(size_t(n_tokens), 0);
    const std::vector<float> out = run(layer);
    EXPECT_LT(error(layer, out), kTolerance);
    for (int d = 0; d < layer.shape.head_dim; ++d) EXPECT_EQ(out[size_t(d)], 0);
  }
}

TEST(Attention, EntriesBeyondTheVisibleAreNotRead) {
  for (const int n_tokens : {1, 64}) {
    Layer layer({.n_tokens = n_tokens, .lengths = {77}});
    const std::vector<float> expected = run(layer);
    layer.data[0].resize(400 * layer.shape.stride, std::byte{0xff});  // NaN in F16 and F32
    EXPECT_EQ(run(layer), expected);
  }
}

TEST(Attention, ExtremeLogits) {
  for (const float size : {0.0F, 1e4F, 6e4F}) {
    for (const int n_tokens : {1, 64}) {
      SCOPED_TRACE(testing::Message() << size << ", tokens " << n_tokens);
      const Layer layer(
          {.n_tokens = n_tokens, .k_type = KvType::f32, .lengths = {300, 1}, .logit_size = size});
      // A logit of 6e4 has an absolute error of some 1e-2 in F32, and so have its weight's ratios.
      EXPECT_LT(error(layer, run(layer)), size > 0 ? 0.05 : kTolerance);
    }
  }
}

TEST(Attention, OneEntryIsReturnedWhateverItsLogit) {
  for (const float logit_size : {0.0F, 6e4F}) {
    const Layer layer(
        {.k_type = KvType::f32, .v_type = KvType::f32, .lengths = {1}, .logit_size = logit_size});
    EXPECT_LT(error(layer, run(layer)), 1e-6);
  }
}

TEST(Attention, SameBitsForAnyNumberOfThreads) {
  for (const int n_tokens : {1, 3, 7, 100}) {
    const Layer layer({.n_tokens = n_tokens, .lengths = {1500, 3, 700, 256, 257}});
    const std::vector<float> expected = run(layer);
    for (const int threads : {2, 3, 5}) EXPECT_EQ(run(layer, threads), expected) << threads;
  }
}

TEST(Attention, TokensTogetherOrOneByOne) {
  const Layer layer({.n_tokens = 40, .lengths = {600, 90}});
  const std::vector<float> together = run(layer);
  const size_t row = layer.q.size() / 40;
  for (size_t t = 0; t < 40; ++t) {
    Layer single = layer;
    single.shape.n_tokens = 1;
    single.q.assign(layer.q.begin() + std::ptrdiff_t(t * row),
                    layer.q.begin() + std::ptrdiff_t((t + 1) * row));
    for (auto& visible : single.visible) visible = {visible[t]};
    const std::vector<float> alone = run(single);
    for (size_t i = 0; i < row; ++i) EXPECT_NEAR(alone[i], together[t * row + i], kTolerance);
  }
}

/// The first `common` entries of each head are for all tokens; of the rest, token t has those that
/// it sees to itself.
std::vector<float> run_split(Layer layer, const std::vector<int>& common, int threads) {
  const size_t n = size_t(layer.shape.n_tokens);
  std::vector<HeadEntries> own = {};
  std::vector<std::vector<int>> rest = layer.visible;
  const std::vector<HeadEntries> heads = layer.heads();
  for (size_t h = 0; h < common.size(); ++h) {
    for (int& visible : rest[h]) visible -= common[h];
    HeadEntries entries = heads[h];
    entries.data += size_t(common[h]) * layer.shape.stride;
    entries.n_weights = std::max(0, entries.n_weights - common[h]);
    entries.log_weights = entries.n_weights > 0 ? entries.log_weights + common[h] : nullptr;
    entries.visible = rest[h].data();
    own.insert(own.end(), n, entries);
    layer.visible[h].assign(n, common[h]);
  }
  RaggedAttention attention;
  return run(attention, layer, threads, own);
}

TEST(Attention, EntriesForAllTokensAndOfTheirOwn) {
  for (const int n_tokens : {1, 2, 11, 70, 150}) {
    for (const std::vector<int>& common :
         {std::vector{0, 0, 0}, std::vector{130, 1, 600}, std::vector{300, 0, 1500}}) {
      SCOPED_TRACE(testing::Message() << n_tokens << " tokens, " << common[0] << " common");
      const Layer layer({.n_tokens = n_tokens, .lengths = {480, 160, 1700}});
      const std::vector<float> out = run_split(layer, common, 1);
      EXPECT_LT(error(layer, out), kTolerance);
      EXPECT_EQ(run_split(layer, common, 3), out);
    }
  }
}

TEST(Attention, OneObjectServesDifferentShapes) {
  const Layer large({.n_tokens = 70, .head_dim = 128}), small({.head_dim = 32}, 2);
  const std::vector<float> expected_large = run(large), expected_small = run(small);
  RaggedAttention attention;
  EXPECT_EQ(run(attention, large, 2), expected_large);
  EXPECT_EQ(run(attention, small), expected_small);
  const size_t held = attention.scratch_bytes();
  EXPECT_EQ(run(attention, large, 2), expected_large);
  EXPECT_EQ(attention.scratch_bytes(), held);
}

TEST(Attention, ScratchIsBoundedByTheTile) {
  RaggedAttention few_tokens, many_tokens;
  run(few_tokens, Layer({.n_tokens = 64, .head_dim = 32, .lengths = {64}}));
  run(many_tokens, Layer({.n_tokens = 300, .head_dim = 32, .lengths = {3000}}));
  EXPECT_LT(many_tokens.scratch_bytes(), 4 * few_tokens.scratch_bytes());
}

TEST(Simd, Exp2) {
  double worst = 0;
  for (float x = -126; x <= 0; x += 0.0037F) {
    const double exact = std::exp2(double(x));
    worst = std::max(worst, std::abs(simd::exp2(simd::broadcast(x))[0] - exact) / exact);
  }
  EXPECT_LT(worst, 2e-7);
  for (const float x : {-127.0F, -1e5F, -std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(simd::exp2(simd::broadcast(x))[0], 0);
  }
}

TEST(Simd, WidenIsExactForEveryHalf) {
  std::vector<uint16_t> halves(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = uint16_t(i);
  std::vector<float> floats(halves.size());
  simd::widen(halves.data(), int(halves.size()), floats.data());
  for (size_t i = 0; i < halves.size(); ++i) {
    const double expected = reference::half(halves[i]);
    for (const float x : {floats[i], simd::half_to_float(halves[i])}) {
      ASSERT_TRUE(x == expected || (std::isnan(x) && std::isnan(expected))) << i;
    }
  }
}

TEST(Simd, Transpose) {
  simd::F32 square[simd::kWidth];
  for (int i = 0; i < simd::kWidth; ++i) {
    for (int j = 0; j < simd::kWidth; ++j) square[i][j] = float(100 * i + j);
  }
  simd::transpose(square);
  for (int i = 0; i < simd::kWidth; ++i) {
    for (int j = 0; j < simd::kWidth; ++j) EXPECT_EQ(square[i][j], float(100 * j + i));
  }
}

}  // namespace
}  // namespace pith
