#include "base/aligned.h"

#include <algorithm>
#include <bit>
#include <mutex>

namespace pith {
namespace {

/// Enough for every boundary of Eigen's; before a block stands how much it holds.
constexpr std::size_t kBoundary = 64;
static_assert(EIGEN_MAX_ALIGN_BYTES <= kBoundary);
/// Smaller blocks are left to the system's own reuse.
constexpr std::size_t kLarge = std::size_t{1} << 18;

struct Kept {
  std::mutex mutex;
  int users = 0;
  std::vector<void*> blocks;
};

Kept& kept() {
  static Kept all;
  return all;
}

std::size_t& capacity(void* block) {
  return *reinterpret_cast<std::size_t*>(static_cast<std::byte*>(block) - kBoundary);
}

void* new_block(std::size_t bytes) {
  void* whole = ::operator new(bytes + kBoundary, std::align_val_t{kBoundary});
  void* block = static_cast<std::byte*>(whole) + kBoundary;
  capacity(block) = bytes;
  return block;
}

void free_block(void* block) noexcept {
  ::operator delete(static_cast<std::byte*>(block) - kBoundary, std::align_val_t{kBoundary});
}

/// Whether the block was kept: one that there is no room to note is not.
bool keep(void* block) noexcept {
  const std::scoped_lock lock(kept().mutex);
  if (kept().users == 0) return false;
  try {
    kept().blocks.push_back(block);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

ReusedBlocks::ReusedBlocks() {
  const std::scoped_lock lock(kept().mutex);
  ++kept().users;
}

ReusedBlocks::~ReusedBlocks() {
  const std::scoped_lock lock(kept().mutex);
  if (--kept().users > 0) return;
  for (void* block : kept().blocks) free_block(block);
  kept().blocks.clear();
}

std::size_t ReusedBlocks::kept_bytes() {
  const std::scoped_lock lock(kept().mutex);
  std::size_t bytes = 0;
  for (void* block : kept().blocks) bytes += capacity(block);
  return bytes;
}

namespace detail {

/// The smallest kept block that is large enough and at most twice as large, or a new one. Large
/// ones are of a power of two, so that heads of different sizes can use each other's.
void* take_block(std::size_t bytes) {
  if (bytes >= kLarge) {
    const std::scoped_lock lock(kept().mutex);
    auto& blocks = kept().blocks;
    auto best = blocks.end();
    for (auto at = blocks.begin(); at != blocks.end(); ++at) {
      const bool fits = capacity(*at) >= bytes && capacity(*at) <= 2 * bytes;
      if (fits && (best == blocks.end() || capacity(*at) < capacity(*best))) best = at;
    }
    if (best != blocks.end()) {
      void* block = *best;
      blocks.erase(best);
      return block;
    }
    bytes = std::bit_ceil(bytes);
  }
  return new_block(bytes);
}

void give_block(void* block) noexcept {
  if (capacity(block) < kLarge || !keep(block)) free_block(block);
}

}  // namespace detail
}  // namespace pith
