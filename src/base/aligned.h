#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <new>
#include <utility>
#include <vector>

namespace pith {

/// While one lives, large blocks that AlignedVectors give up are kept for the next ones of about
/// their size, and freed with the last. A head after the other needs the same memory, and fresh
/// pages cost as much as a third of what is computed in them. Thread-safe.
class ReusedBlocks {
 public:
  ReusedBlocks();
  ~ReusedBlocks();
  ReusedBlocks(const ReusedBlocks&) = delete;
  ReusedBlocks& operator=(const ReusedBlocks&) = delete;

  static std::size_t kept_bytes();  ///< of blocks that nothing uses now
};

namespace detail {

void* take_block(std::size_t bytes);
void give_block(void* block) noexcept;

template <class T>
struct BlockAllocator {
  using value_type = T;

  BlockAllocator() = default;
  template <class U>
  BlockAllocator(const BlockAllocator<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) { return static_cast<T*>(take_block(count * sizeof(T))); }
  void deallocate(T* block, std::size_t /*count*/) noexcept { give_block(block); }
  /// Numbers that nothing is said of are not set.
  template <class U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
  bool operator==(const BlockAllocator&) const { return true; }
};

}  // namespace detail

/// A vector that starts on the boundary that Eigen's vector code works from, and whose new numbers
/// are not set. What an Eigen expression writes before such a boundary it computes a number at a
/// time, and an exponential or a sum made that way differs in its last bit: in memory that starts
/// anywhere, results would hang on where it happens to lie, and a choice between near equals would
/// differ from run to run.
template <class T>
using AlignedVector = std::vector<T, detail::BlockAllocator<T>>;

}  // namespace pith
