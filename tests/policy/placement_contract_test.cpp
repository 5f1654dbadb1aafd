// What a policy says must not hang on where its memory happens to lie: vector code that treats what
// comes before an aligned address apart rounds differently from one run to the next.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "policy/policy.h"
#include "support/every_policy.h"

namespace {

constexpr std::size_t kLine = 64;

/// Bytes between a cache line and what `new` returns.
std::atomic<std::size_t> phase{0};

/// The block's own address stands before what is returned; null where there is no memory.
void* placed(std::size_t size) noexcept {
  const std::size_t lead = kLine + phase.load();
  char* base =
      static_cast<char*>(std::aligned_alloc(kLine, (lead + size + kLine - 1) & ~(kLine - 1)));
  if (base == nullptr) return nullptr;
  std::memcpy(base + lead - sizeof base, &base, sizeof base);
  return base + lead;
}

void release(void* at) noexcept {
  if (at == nullptr) return;
  char* base = nullptr;
  std::memcpy(&base, static_cast<char*>(at) - sizeof base, sizeof base);
  std::free(base);
}

}  // namespace

// All that a plain delete may be given: sanitizers bring each form of their own.
void* operator new(std::size_t size) {
  if (void* at = placed(size)) return at;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return placed(size);
}
void operator delete(void* at) noexcept { release(at); }
void operator delete(void* at, std::size_t /*size*/) noexcept { release(at); }
void operator delete(void* at, const std::nothrow_t& /*tag*/) noexcept { release(at); }

namespace pith::test {

namespace {

class PlacementContract : public EveryPolicy {};

INSTANTIATE_TEST_SUITE_P(Registry, PlacementContract, testing::ValuesIn(evicting_specs()),
                         spec_test_name);

TEST_P(PlacementContract, SameWhereverMemoryLies) {
  const auto plan_at = [](std::size_t offset) {
    phase = offset;
    const Synthetic synthetic =
        make_synthetic({.shape = small_shape(2, 2), .lengths = {40, 33, 70, 40}, .observed = 21});
    const PolicyContext context = synthetic.context(60);
    const Policy policy = Policy::parse(GetParam());
    const Scores scores = policy.score(context);
    Plan plan = policy.select(scores, context);
    phase = 0;
    return std::pair(scores.rows, plan.rows);
  };
  const auto [scores, rows] = plan_at(0);
  for (const std::size_t offset : {16, 32, 48}) {
    SCOPED_TRACE(offset);
    const auto [again_scores, again] = plan_at(offset);
    EXPECT_EQ(again_scores, scores);
    for (size_t r = 0; r < rows.size(); ++r) {
      EXPECT_EQ(again[r].keep, rows[r].keep);
      EXPECT_EQ(again[r].log_weight, rows[r].log_weight);
      EXPECT_EQ(again[r].values, rows[r].values);
    }
  }
}

}  // namespace

}  // namespace pith::test
