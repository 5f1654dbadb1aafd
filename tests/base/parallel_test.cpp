#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace pith {
namespace {

TEST(ParallelFor, CallsEachIndexOnce) {
  for (const int threads : {0, 1, 2, 3, 16}) {
    for (const int count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      parallel_for(count, threads, [&](int i) { ++calls.at(size_t(i)); });
      for (const auto& n : calls) ASSERT_EQ(n, 1) << count << " on " << threads;
    }
  }
}

TEST(ParallelFor, RunsInTheCallersThreadAloneForOneThread) {
  std::set<std::thread::id> seen;
  parallel_for(50, 1, [&](int) { seen.insert(std::this_thread::get_id()); });
  EXPECT_EQ(seen, std::set{std::this_thread::get_id()});
}

TEST(ParallelFor, ReallyUsesItsThreads) {
  // Each call waits for the other: on one thread this would never end.
  std::atomic<int> arrived{0};
  parallel_for(2, 2, [&](int) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(ParallelFor, RethrowsAfterAllThreadsHaveStopped) {
  for (const int threads : {1, 4}) {
    std::atomic<int> running{0};
    std::string message;
    try {
      parallel_for(1000, threads, [&](int i) {
        ++running;
        std::this_thread::yield();
        --running;
        if (i == 3) throw std::runtime_error("third");
      });
    } catch (const std::runtime_error& error) {
      message = error.what();
      EXPECT_EQ(running, 0);
    }
    EXPECT_EQ(message, "third") << threads;
  }
}

TEST(ParallelFor, StopsEarlyOnFailure) {
  std::atomic<int> calls{0};
  EXPECT_THROW(parallel_for(1'000'000, 1,
                            [&](int) {
                              ++calls;
                              throw std::runtime_error("first");
                            }),
               std::runtime_error);
  EXPECT_EQ(calls, 1);
}

TEST(ParallelFor, NestsInItself) {
  std::vector<std::atomic<int>> calls(12);
  parallel_for(3, 2, [&](int outer) {
    parallel_for(4, 2, [&](int inner) { ++calls.at(size_t(outer) * 4 + size_t(inner)); });
  });
  for (const auto& n : calls) EXPECT_EQ(n, 1);
}

}  // namespace
}  // namespace pith
