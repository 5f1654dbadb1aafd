#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <vector>

#include "cache/kv_cache.h"

namespace pith {
namespace {

// The packaged model's sizes.
constexpr CacheGeometry kGeometry = {.n_layer = 30, .n_head_kv = 3, .head_dim = 64, .n_ctx = 8192};
constexpr int kRows = 90;

size_t page_bytes() { return size_t(sysconf(_SC_PAGESIZE)); }

size_t process_resident_bytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * page_bytes();
}

/// Bytes of the cache's pages that the system holds in memory.
size_t cache_resident_bytes(const KvCache& cache) {
  const CacheGeometry& geometry = cache.geometry();
  const size_t rows = size_t(geometry.n_layer) * size_t(geometry.n_head_kv);
  const size_t bytes = rows * cache.head_stride();
  std::vector<unsigned char> held(bytes / page_bytes());
  // mincore() only reads, but takes no pointer to const.
  EXPECT_EQ(mincore(const_cast<std::byte*>(cache.entries(0, 0)), bytes, held.data()), 0);
  size_t pages = 0;
  for (const unsigned char page : held) pages += page & 1U;
  return pages * page_bytes();
}

void fill(KvCache& cache, int count) {
  const CacheGeometry& geometry = cache.geometry();
  const std::vector<float> ones(size_t(geometry.head_dim), 1.0F);
  for (int layer = 0; layer < geometry.n_layer; ++layer) {
    for (int head = 0; head < geometry.n_head_kv; ++head) {
      const int first = cache.length(layer, head);
      for (int i = first; i < first + count; ++i) {
        cache.write_entry(layer, head, i, ones.data(), ones.data());
      }
    }
  }
  cache.commit_append(count);
}

/// Keeps a tenth of all entries, scattered, shared unevenly among the rows.
Plan tenth_of(const KvCache& cache) {
  std::mt19937 random(7);
  const int length = cache.length(0, 0);
  Plan plan;
  plan.rows.resize(kRows);
  int64_t left = cache.total_entries() / 10;
  for (int row = 0; row < kRows; ++row) {
    const int64_t mean = left / (kRows - row);
    const int64_t kept = row == kRows - 1 ? left : mean / 2 + int64_t(random() % size_t(mean));
    for (int64_t i = 0; i < kept; ++i) {
      plan.rows[size_t(row)].keep.push_back(int32_t(i * length / kept));
    }
    left -= kept;
  }
  return plan;
}

TEST(KvCacheMemory, ApplyGivesMemoryBack) {
  const size_t process_before = process_resident_bytes();
  KvCache cache(kGeometry);
  fill(cache, kGeometry.n_ctx);
  const CacheBytes full = cache.bytes();
  const size_t process_full = process_resident_bytes();
  ASSERT_EQ(full.entries, size_t(kRows) * 8192 * 256);

  const Plan plan = tenth_of(cache);
  cache.apply(plan);
  const CacheBytes kept = cache.bytes();
  EXPECT_NEAR(double(kept.total()), double(full.total()) / 10, double(full.total()) / 10 * 0.01);
  EXPECT_GE(kept.resident, kept.total());
  EXPECT_LE(double(kept.resident), double(kept.total()) * 1.02 + double(kRows * page_bytes()));

#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer keeps freed memory and shadow pages, which count as resident";
#endif
  const double grown = double(process_full - process_before);
  const double shrunk = double(process_full) - double(process_resident_bytes());
  EXPECT_NEAR(grown, double(full.resident), double(full.resident) * 0.03);
  EXPECT_NEAR(shrunk, double(full.resident - kept.resident), double(full.resident) * 0.03);
}

TEST(KvCacheMemory, ResidentIsWhatTheSystemHolds) {
  // Entries of 200 bytes: pages hold no whole number of them.
  KvCache cache({.n_layer = 2, .n_head_kv = 1, .head_dim = 50, .n_ctx = 1001});
  const auto check = [](const KvCache& each) {
    const CacheBytes bytes = each.bytes();
    EXPECT_EQ(bytes.resident, cache_resident_bytes(each) + bytes.positions + bytes.log_weights);
  };
  check(cache);
  fill(cache, 701);
  check(cache);
  Plan plan;
  plan.rows.resize(2);
  for (int32_t i = 0; i < 700; i += 3) plan.rows[0].keep.push_back(i);
  plan.rows[1] = {{3, 700}, {0, 1}};
  cache.apply(plan);
  check(cache);
  check(cache.fork());
  cache.trim(100);
  check(cache);
  cache.trim(0);
  EXPECT_EQ(cache_resident_bytes(cache), 0U);
  EXPECT_EQ(cache.bytes().resident, 0U);
}

TEST(KvCacheMemory, PagesOfAnAppendGivenUpGoWithTheNextRelease) {
  KvCache cache({.n_layer = 1, .n_head_kv = 1, .head_dim = 64, .n_ctx = 1024});
  fill(cache, 10);
  const std::vector<float> ones(64, 1.0F);
  for (int i = 10; i < 1000; ++i) cache.write_entry(0, 0, i, ones.data(), ones.data());
  EXPECT_GT(cache_resident_bytes(cache), page_bytes());
  cache.trim(10);
  EXPECT_EQ(cache_resident_bytes(cache), page_bytes());
  EXPECT_EQ(cache.length(0, 0), 10);
}

TEST(KvCacheMemory, TakesAPageForTheFirstEntryOfARow) {
  // Rows are larger than a huge page, which none may become.
  KvCache cache({.n_layer = 30, .n_head_kv = 3, .head_dim = 64, .n_ctx = 1 << 16});
  EXPECT_EQ(cache_resident_bytes(cache), 0U);
  fill(cache, 1);
  EXPECT_EQ(cache_resident_bytes(cache), kRows * page_bytes());
}

}  // namespace
}  // namespace pith
