#include "base/aligned.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <thread>

namespace pith::test {
namespace {

constexpr size_t kMany = size_t{1} << 20;

TEST(Aligned, BeginsOnEigensBoundary) {
  for (const size_t size : {1U, 3U, 17U, 1U << 20}) {
    const AlignedVector<float> floats(size);
    const AlignedVector<int8_t> bytes(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(floats.data()) % EIGEN_MAX_ALIGN_BYTES, 0U);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % EIGEN_MAX_ALIGN_BYTES, 0U);
  }
}

TEST(Aligned, IsAVectorLikeOthers) {
  AlignedVector<int> numbers(3, 7);
  numbers.push_back(8);
  const AlignedVector<int> copy = numbers;
  numbers.resize(kMany);
  EXPECT_EQ(copy, (AlignedVector<int>{7, 7, 7, 8}));
  EXPECT_TRUE(std::equal(copy.begin(), copy.end(), numbers.begin()));
}

/// A large block comes back for what is as large or somewhat smaller, and not for more or far less.
TEST(Aligned, BlocksAreUsedAgainWhileOneReuses) {
  EXPECT_EQ(ReusedBlocks::kept_bytes(), 0U);
  const ReusedBlocks outer;
  const void* first = nullptr;
  {
    AlignedVector<float> floats(kMany);
    first = floats.data();
  }
  EXPECT_EQ(ReusedBlocks::kept_bytes(), kMany * sizeof(float));
  {
    const AlignedVector<float> larger(kMany + 1), tiny(8), third(kMany / 3);
  }
  EXPECT_GT(ReusedBlocks::kept_bytes(), 2 * kMany * sizeof(float));
  const AlignedVector<int8_t> same(kMany * sizeof(float));
  EXPECT_EQ(static_cast<const void*>(same.data()), first);
}

/// Of sizes that differ by less than twice there are never more blocks than are held at once.
TEST(Aligned, SizesThatDifferShareABlock) {
  const ReusedBlocks outer;
  for (size_t size = kMany / 2 + 1; size <= kMany; size += kMany / 16) {
    const AlignedVector<float> floats(size);
  }
  EXPECT_EQ(ReusedBlocks::kept_bytes(), kMany * sizeof(float));
}

TEST(Aligned, NothingIsKeptBehindTheLast) {
  {
    const ReusedBlocks outer;
    {
      const ReusedBlocks inner;
    }
    {
      const AlignedVector<float> floats(kMany);
    }
    EXPECT_GT(ReusedBlocks::kept_bytes(), 0U);
  }
  EXPECT_EQ(ReusedBlocks::kept_bytes(), 0U);
  {
    const AlignedVector<float> floats(kMany);
  }
  EXPECT_EQ(ReusedBlocks::kept_bytes(), 0U);
}

/// A block taken while one reused outlives it.
TEST(Aligned, ThreadsDoNotShareBlocks) {
  AlignedVector<int> kept;
  {
    const ReusedBlocks reused;
    const auto work = [](int seed) {
      for (int round = 0; round < 50; ++round) {
        AlignedVector<int> mine(size_t{100000} + size_t(round % 7) * 1000);
        std::iota(mine.begin(), mine.end(), seed);
        for (size_t i = 0; i < mine.size(); i += 997) ASSERT_EQ(mine[i], seed + int(i));
      }
    };
    std::thread other(work, 1000);
    work(5);
    other.join();
    kept.assign(kMany, 3);
  }
  EXPECT_EQ(std::accumulate(kept.begin(), kept.end(), int64_t{0}), int64_t{3} * kMany);
}

}  // namespace
}  // namespace pith::test
