#include "cache/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/cache_driver.hpp"

namespace pith {
namespace {

/// One row of two-number entries: key {position, 1}, value {-position, 2}, at positions 0 .. n-1.
KvCache counting_cache(int n, int n_ctx = 16) {
  KvCache cache({.n_layer = 1, .n_head_kv = 1, .head_dim = 2, .n_ctx = n_ctx});
  for (int i = 0; i < n; ++i) {
    const float key[] = {float(i), 1}, value[] = {-float(i), 2};
    cache.write_entry(0, 0, i, key, value);
  }
  cache.commit_append(n);
  return cache;
}

Plan keeping(std::vector<int32_t> keep, std::vector<float> log_weight = {}) {
  Plan plan;
  plan.rows.push_back({std::move(keep), std::move(log_weight)});
  return plan;
}

std::vector<int32_t> positions_of(const KvCache& cache) {
  const auto positions = cache.positions(0, 0);
  return {positions.begin(), positions.end()};
}

std::vector<float> weights_of(const KvCache& cache) {
  const auto weights = cache.log_weights(0, 0);
  return {weights.begin(), weights.end()};
}

std::vector<float> keys_of(const KvCache& cache) {
  std::vector<float> keys(size_t(cache.length(0, 0)) * 2);
  cache.read_keys(0, 0, 0, keys);
  return keys;
}

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::internal;
}

using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

class CacheDifferential : public ::testing::TestWithParam<uint32_t> {};

TEST_P(CacheDifferential, AgreesWithVectorsOfEntries) {
  constexpr uint32_t kRuns = 40;
  for (uint32_t run = 0; run < kRuns; ++run) {
    std::mt19937 random(GetParam() * kRuns + run);
    std::vector<uint8_t> bytes(120);
    for (uint8_t& byte : bytes) byte = uint8_t(random());
    ASSERT_NO_THROW(testing::drive_cache(bytes)) << "seed " << GetParam() * kRuns + run;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CacheDifferential, ::testing::Range(0U, 8U));

TEST(KvCache, IsEmptyAtFirst) {
  const KvCache cache({.n_layer = 2, .n_head_kv = 3, .head_dim = 8, .n_ctx = 37});
  EXPECT_EQ(cache.total_entries(), 0);
  EXPECT_EQ(cache.next_position(), 0);
  EXPECT_EQ(cache.longest(1), 0);
  EXPECT_TRUE(cache.positions(1, 2).empty());
  EXPECT_EQ(cache.bytes().total(), 0U);
  EXPECT_EQ(cache.bytes().resident, 0U);
}

TEST(KvCache, ValuesOfAPlanTakeThePlaceOfThoseThere) {
  KvCache cache = counting_cache(6);
  Plan plan = keeping({1, 4});
  plan.rows[0].values = {10, 11, 12, 13};
  cache.apply(plan);
  std::vector<float> values(4);
  cache.read_values(0, 0, 0, values);
  EXPECT_EQ(values, plan.rows[0].values);
  EXPECT_EQ(keys_of(cache), (std::vector<float>{1, 1, 4, 1}));
}

TEST(KvCache, ValuesOfAnotherSizeOrNotFiniteAreRefused) {
  KvCache cache = counting_cache(6);
  for (const std::vector<float>& values :
       {std::vector<float>{1, 2, 3}, {1, 2, 3, std::numeric_limits<float>::quiet_NaN()}}) {
    Plan plan = keeping({1, 4});
    plan.rows[0].values = values;
    EXPECT_EQ(code_of([&] { cache.apply(plan); }), ErrorCode::internal);
    EXPECT_EQ(cache.length(0, 0), 6);
  }
}

TEST(KvCache, AppliesAnEmptyPlanToAnEmptyCache) {
  KvCache cache = counting_cache(0);
  cache.apply(keeping({}));
  cache.trim(0);
  EXPECT_EQ(cache.fork().total_entries(), 0);
}

TEST(KvCache, KeepsEntriesWithTheirPositions) {
  KvCache cache = counting_cache(6);
  cache.apply(keeping({0, 3, 4}));
  EXPECT_EQ(positions_of(cache), (Ints{0, 3, 4}));
  EXPECT_EQ(keys_of(cache), (Floats{0, 1, 3, 1, 4, 1}));
  Floats value(2);
  cache.read_values(0, 0, 1, value);
  EXPECT_EQ(value, (Floats{-3, 2}));
}

TEST(KvCache, NextPositionCountsTokensNotEntries) {
  KvCache cache = counting_cache(6);
  cache.apply(keeping({5}));
  EXPECT_EQ(cache.next_position(), 6);
  cache.commit_append(2);
  EXPECT_EQ(positions_of(cache), (Ints{5, 6, 7}));
  cache.trim(7);
  EXPECT_EQ(cache.next_position(), 7);
  EXPECT_EQ(positions_of(cache), (Ints{5, 6}));
}

TEST(KvCache, EvictionMakesRoomForMoreThanNCtxTokens) {
  KvCache cache = counting_cache(16, 16);
  EXPECT_EQ(code_of([&] { cache.check_append(1); }), ErrorCode::memory);
  cache.apply(keeping({0, 15}));
  cache.commit_append(14);
  EXPECT_EQ(cache.next_position(), 30);
  EXPECT_EQ(code_of([&] { cache.commit_append(1); }), ErrorCode::memory);
}

TEST(KvCache, LogWeightsAddAndVanishWhenAllAreZero) {
  KvCache cache = counting_cache(4);
  cache.apply(keeping({0, 1, 2, 3}, {0, 0, 0, 0}));
  EXPECT_TRUE(cache.log_weights(0, 0).empty());
  cache.apply(keeping({0, 1, 3}, {0.5F, 0, 0.25F}));
  cache.commit_append(1);
  EXPECT_EQ(weights_of(cache), (Floats{0.5F, 0, 0.25F, 0}));
  EXPECT_EQ(cache.bytes().log_weights, 16U);
  cache.apply(keeping({0, 2, 3}, {1, -0.25F, 0}));
  EXPECT_EQ(weights_of(cache), (Floats{1.5F, 0, 0}));
  cache.apply(keeping({1, 2}));
  EXPECT_TRUE(cache.log_weights(0, 0).empty());
}

TEST(KvCache, TrimDropsWeightsThatAreLeftZero) {
  KvCache cache = counting_cache(4);
  cache.apply(keeping({0, 1, 2, 3}, {0, 0, 2, 3}));
  cache.trim(3);
  EXPECT_EQ(weights_of(cache), (Floats{0, 0, 2}));
  cache.trim(2);
  EXPECT_TRUE(cache.log_weights(0, 0).empty());
}

TEST(KvCache, RefusesWeightsWhoseSumIsNotFinite) {
  constexpr float kHuge = std::numeric_limits<float>::max();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  KvCache cache = counting_cache(2);
  EXPECT_EQ(code_of([&] { cache.apply(keeping({0}, {-kInfinity})); }), ErrorCode::internal);
  cache.apply(keeping({0, 1}, {kHuge, 1}));
  EXPECT_EQ(code_of([&] { cache.apply(keeping({0}, {kHuge})); }), ErrorCode::internal);
  EXPECT_EQ(weights_of(cache), (Floats{kHuge, 1}));
}

TEST(KvCache, MalformedLastRowChangesNoRow) {
  KvCache cache({.n_layer = 2, .n_head_kv = 1, .head_dim = 1, .n_ctx = 4});
  cache.commit_append(4);
  Plan plan;
  plan.rows = {{{0}, {7}}, {{3, 2}, {}}};
  EXPECT_EQ(code_of([&] { cache.apply(plan); }), ErrorCode::internal);
  EXPECT_EQ(cache.total_entries(), 8);
  EXPECT_TRUE(cache.log_weights(0, 0).empty());
}

TEST(KvCache, ForksAreIndependent) {
  KvCache cache = counting_cache(5);
  cache.apply(keeping({1, 2, 4}, {0, 1, 0}));
  KvCache copy = cache.fork();
  const float zeros[] = {0, 0};
  cache.write_entry(0, 0, 0, zeros, zeros);
  cache.trim(0);
  EXPECT_EQ(positions_of(copy), (Ints{1, 2, 4}));
  EXPECT_EQ(keys_of(copy), (Floats{1, 1, 2, 1, 4, 1}));
  EXPECT_EQ(weights_of(copy), (Floats{0, 1, 0}));
  EXPECT_EQ(copy.next_position(), 5);
}

/// Positions before which two caches of one row hold the same; every entry that is written has a
/// number of its own.
int32_t same_entries(const KvCache& a, const KvCache& b) {
  const Floats first = keys_of(a), second = keys_of(b);
  size_t i = 0;
  while (i < std::min(first.size(), second.size()) && first[i] == second[i]) ++i;
  const auto at = [&](const KvCache& cache) {
    return i / 2 < size_t(cache.length(0, 0)) ? cache.positions(0, 0)[i / 2]
                                              : cache.next_position();
  };
  return std::min(at(a), at(b));
}

void append_numbered(KvCache& cache, int count, int& number) {
  for (int i = 0; i < count; ++i) {
    const float key[] = {float(number++), 0};
    cache.write_entry(0, 0, cache.length(0, 0) + i, key, key);
  }
  cache.commit_append(count);
}

class CacheForks : public ::testing::TestWithParam<uint32_t> {};

/// Forks of forks, appended to, trimmed and dropped in any order, know what they still share.
TEST_P(CacheForks, KnowWhatTheyHaveInCommon) {
  std::mt19937 random(GetParam());
  const auto below = [&](size_t n) { return random() % n; };
  std::vector<KvCache> caches;
  caches.emplace_back(CacheGeometry{
      .n_layer = 1, .n_head_kv = 1, .head_dim = 2, .k_type = KvType::f32, .n_ctx = 400});
  int number = 1;
  for (int step = 0; step < 300; ++step) {
    const size_t which = below(caches.size()), deed = below(8);
    KvCache& cache = caches[which];
    if (deed < 3) {
      append_numbered(cache, std::min(int(below(4)), 400 - cache.length(0, 0)), number);
    } else if (deed < 5 && caches.size() < 6) {
      caches.push_back(cache.fork());
    } else if (deed == 5) {
      cache.trim(cache.next_position() - int32_t(below(size_t(cache.next_position()) / 3 + 1)));
    } else if (deed == 6 && caches.size() > 2) {
      caches.erase(caches.begin() + std::ptrdiff_t(which));
    }
    for (const KvCache& a : caches) {
      for (const KvCache& b : caches) ASSERT_EQ(a.same_before(b), same_entries(a, b)) << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CacheForks, ::testing::Range(0U, 8U));

TEST(KvCache, NothingIsInCommonAfterACompressionOfOne) {
  KvCache cache = counting_cache(5), fork = cache.fork();
  EXPECT_EQ(cache.same_before(fork), 5);
  fork.apply(keeping({0, 1, 2}, {0, 1, 0}));
  EXPECT_EQ(cache.same_before(fork), 0);
  EXPECT_EQ(fork.same_before(fork.fork()), 5);
  EXPECT_EQ(counting_cache(5).same_before(counting_cache(5)), 0) << "equal, but not forks";
}

TEST(KvCache, PendingEntriesShowOnlyWhenCommitted) {
  KvCache cache = counting_cache(2);
  const float key[] = {9, 9};
  cache.write_entry(0, 0, 2, key, key);
  EXPECT_EQ(cache.length(0, 0), 2);
  EXPECT_EQ(keys_of(cache), (Floats{0, 1, 1, 1}));
  cache.commit_append(1);
  EXPECT_EQ(keys_of(cache), (Floats{0, 1, 1, 1, 9, 9}));
}

TEST(KvCache, EntriesMayBeWrittenFromSeveralThreads) {
  constexpr int kEntries = 1000, kThreads = 4;
  KvCache cache({.n_layer = 1, .n_head_kv = 1, .head_dim = 2, .n_ctx = kEntries});
  std::vector<std::jthread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&cache, t] {
      for (int i = t; i < kEntries; i += kThreads) {
        const float key[] = {float(i), 1};
        cache.write_entry(0, 0, i, key, key);
      }
    });
  }
  threads.clear();
  cache.commit_append(kEntries);
  const Floats keys = keys_of(cache);
  for (size_t i = 0; i < kEntries; ++i) ASSERT_EQ(keys[2 * i], float(i));
}

TEST(KvCache, RoundsToTheNearestF16) {
  KvCache cache = counting_cache(1);
  // Halfway cases go to the even neighbour; 6e-8 is the least subnormal, below which is zero.
  const float key[] = {1 + 1.0F / 2048, 1 + 3.0F / 2048}, value[] = {65504, 6e-8F};
  cache.write_entry(0, 0, 0, key, value);
  EXPECT_EQ(keys_of(cache), (Floats{1, 1 + 4.0F / 2048}));
  Floats read(2);
  cache.read_values(0, 0, 0, read);
  EXPECT_EQ(read, (Floats{65504, 0x1p-24F}));
}

TEST(KvCache, RefusesReadsOutsideTheCache) {
  const KvCache cache = counting_cache(3);
  Floats one(2), part(3), none;
  EXPECT_NO_THROW(cache.read_keys(0, 0, 2, one));
  EXPECT_NO_THROW(cache.read_keys(0, 0, 3, none));
  EXPECT_EQ(code_of([&] { cache.read_keys(0, 0, 3, one); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { cache.read_values(0, 0, -1, one); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { cache.read_values(0, 1, 0, one); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { cache.read_keys(1, 0, 0, one); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { cache.read_keys(0, 0, 0, part); }), ErrorCode::internal);
}

TEST(KvCache, RefusesWhatCannotBeHad) {
  CacheGeometry huge = {
      .n_layer = 1 << 20, .n_head_kv = 1 << 20, .head_dim = 128, .n_ctx = 1 << 30};
  EXPECT_EQ(code_of([&] { KvCache{huge}; }), ErrorCode::memory);  // overflows
  huge = {.n_layer = 1 << 10, .n_head_kv = 1 << 10, .head_dim = 128, .n_ctx = 1 << 25};
  EXPECT_EQ(code_of([&] { KvCache{huge}; }), ErrorCode::memory);  // the system refuses
  EXPECT_EQ(code_of([&] { KvCache{CacheGeometry{}}; }), ErrorCode::internal);
}

TEST(KvCache, ReadsZerosUpToTheNextFullBlockOfEntries) {
  KvCache cache({.n_layer = 2, .n_head_kv = 2, .head_dim = 3, .v_type = KvType::f32, .n_ctx = 257});
  const size_t readable = 2 * size_t(kReadableEntries) * cache.geometry().entry_bytes();
  ASSERT_GE(cache.head_stride(), readable);
  EXPECT_EQ(cache.entries(1, 1) - cache.entries(1, 0), std::ptrdiff_t(cache.head_stride()));
  const std::byte* entries = cache.entries(1, 1);
  EXPECT_TRUE(
      std::all_of(entries, entries + readable, [](std::byte b) { return b == std::byte{}; }));
}

TEST(KvCache, EntryIsAKeyThenAValue) {
  const CacheGeometry mixed = {
      .n_layer = 1, .n_head_kv = 1, .head_dim = 64, .v_type = KvType::f32, .n_ctx = 1};
  EXPECT_EQ(mixed.key_bytes(), 128U);
  EXPECT_EQ(mixed.value_bytes(), 256U);
  EXPECT_EQ(mixed.entry_bytes(), 384U);
}

/// Values as bytes with a scale for every 32: off by at most half a step of their block; keys by
/// less than the steps of their largest number. Moved, copied and replaced as whole entries.
TEST(KvCache, KeepsNumbersAsBytes) {
  constexpr int kDim = 64, kEntries = 9;
  const CacheGeometry bytes = {.n_layer = 1,
                               .n_head_kv = 1,
                               .head_dim = kDim,
                               .k_type = KvType::q8_0,
                               .v_type = KvType::q8_0,
                               .n_ctx = kEntries};
  EXPECT_EQ(bytes.entry_bytes(), 2U * 68);
  KvCache cache(bytes);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> keys(size_t(kDim) * kEntries), values(keys.size());
  for (float& x : keys) x = normal(random);
  for (float& x : values) x = 100 * normal(random);
  for (size_t i = 0; i < keys.size(); i += kDim) keys[i + 7] = 60;
  for (int i = 0; i < kEntries; ++i) {
    cache.write_entry(0, 0, i, &keys[size_t(i) * kDim], &values[size_t(i) * kDim]);
  }
  cache.commit_append(kEntries);

  const std::vector<int32_t> kept = {1, 4, 8};
  cache.apply(keeping(kept));
  const KvCache copy = cache.fork();
  std::vector<float> k(kept.size() * kDim), v(k.size());
  copy.read_keys(0, 0, 0, k);
  copy.read_values(0, 0, 0, v);
  const auto expect_near = [&](const std::vector<float>& found, const std::vector<float>& written) {
    for (size_t at = 0; at < found.size(); at += 32) {
      const float* from = &written[size_t(kept[at / kDim]) * kDim + at % kDim];
      float most = 0;
      for (int i = 0; i < 32; ++i) most = std::max(most, std::abs(from[i]));
      for (size_t i = 0; i < 32; ++i) EXPECT_NEAR(found[at + i], from[i], 0.51 * most / 127);
    }
  };
  expect_near(v, values);
  for (size_t i = 0; i < k.size(); ++i) {
    // 60 / sqrt(64) is added to every number that is rounded; unrotated, a step would be 60 / 127.
    EXPECT_NEAR(k[i], keys[size_t(kept[i / kDim]) * kDim + i % kDim], 0.12);
  }

  Plan plan = keeping({0, 1, 2});
  plan.rows[0].values.assign(k.size(), 3.0F);
  cache.apply(plan);
  cache.read_values(0, 0, 0, v);
  for (const float x : v) EXPECT_NEAR(x, 3, 1e-3);  // the scale is an F16
}

TEST(KvCache, RefusesHeadsThatAreNoWholeBlocks) {
  for (const int head_dim : {1, 16, 80}) {
    CacheGeometry odd = {.n_layer = 1, .n_head_kv = 1, .head_dim = head_dim, .n_ctx = 1};
    odd.k_type = KvType::q8_0;
    EXPECT_EQ(code_of([&] { KvCache{odd}; }), ErrorCode::usage);
    std::swap(odd.k_type, odd.v_type);
    EXPECT_EQ(code_of([&] { KvCache{odd}; }), ErrorCode::usage);
  }
}

TEST(KvCache, MovedCacheKeepsItsEntries) {
  KvCache cache = counting_cache(3);
  KvCache moved = std::move(cache);
  cache = counting_cache(1);
  EXPECT_EQ(keys_of(moved), (Floats{0, 1, 1, 1, 2, 1}));
  moved = std::move(cache);
  EXPECT_EQ(positions_of(moved), (Ints{0}));
}

TEST(CacheView, ShowsTheCache) {
  KvCache cache = counting_cache(4);
  cache.apply(keeping({1, 3}, {0, 2}));
  const ModelShape shape = {.n_layer = 1, .n_head = 2, .n_head_kv = 1, .head_dim = 2};
  const auto view = view_of(cache, shape);
  EXPECT_EQ(view->shape().n_head, 2);
  EXPECT_EQ(view->length(0, 0), 2);
  EXPECT_EQ(view->positions(0, 0)[1], 3);
  EXPECT_EQ(view->log_weights(0, 0)[1], 2);
  EXPECT_EQ(view->next_position(), 4);
  Floats key(2), value(2);
  view->keys(0, 0, 1, key);
  view->values(0, 0, 1, value);
  EXPECT_EQ(key, (Floats{3, 1}));
  EXPECT_EQ(value, (Floats{-3, 2}));
}

TEST(CacheView, RefusesAnotherModelsShape) {
  const KvCache cache = counting_cache(1);
  const ModelShape shape = {.n_layer = 1, .n_head = 2, .n_head_kv = 2, .head_dim = 2};
  EXPECT_EQ(code_of([&] { view_of(cache, shape); }), ErrorCode::internal);
}

}  // namespace
}  // namespace pith
