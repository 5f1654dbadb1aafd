#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pith/pith.hpp"

namespace pith {

/// What one sequence's cache can hold.
struct CacheGeometry {
  int n_layer = 0;
  int n_head_kv = 0;
  int head_dim = 0;
  KvType k_type = KvType::f16;
  KvType v_type = KvType::f16;
  int n_ctx = 0;  ///< most entries a (layer, KV head) can hold

  size_t key_bytes() const;
  size_t value_bytes() const;
  /// Key then value, one after the other.
  size_t entry_bytes() const { return key_bytes() + value_bytes(); }
};

/// Bytes that a cache takes. `entries` counts keys and values, `resident` what the allocator holds
/// of the system's memory (whole pages) for entries, plus positions and log-weights.
struct CacheBytes {
  size_t entries = 0, positions = 0, log_weights = 0, resident = 0;
  size_t total() const { return entries + positions + log_weights; }
};

/// The portable attention path reads a row up to the next multiple of this many entries.
inline constexpr int kReadableEntries = 256;

/// Keys and values of one sequence, ragged: every (layer, KV head) has its own length.
///
/// Each (layer, KV head) owns a range of address space large enough for n_ctx entries; pages are
/// taken from the system when first written and given back when entries go, so that lengths shrink
/// apart without copies elsewhere. An entry is a key followed by its value. Entries lie in position
/// order; a position is stored apart from the cell and never changes. The heads of a layer are
/// evenly spaced (`head_stride`), which is what the portable attention path needs.
class KvCache {
 public:
  /// Reserves address space; no page is taken yet. Throws Error(memory) where it cannot be had,
  /// Error(usage) where the types do not fit head_dim and Error(internal) for a size below one.
  explicit KvCache(const CacheGeometry& geometry);

  const CacheGeometry& geometry() const { return geometry_; }
  int length(int layer, int head_kv) const;
  int longest(int layer) const;
  int64_t total_entries() const;
  /// Position of the next token: counts tokens seen; only trim() lowers it.
  int32_t next_position() const { return next_position_; }
  std::span<const int32_t> positions(int layer, int head_kv) const;
  /// [length] or empty while all are zero.
  std::span<const float> log_weights(int layer, int head_kv) const;

  /// First entry of a (layer, KV head); entries of the pending append follow the first `length`.
  /// Everything up to n_ctx rounded up to kReadableEntries can be read: what was never written or
  /// was given back reads as zeros, the rest as old entries.
  std::byte* entries(int layer, int head_kv);
  const std::byte* entries(int layer, int head_kv) const;
  /// Bytes from one KV head's first entry to the next one's.
  size_t head_stride() const { return head_stride_; }

  /// Reads keys or values of entries first.. into out [count, head_dim]. Throws Error(internal) for
  /// what lies outside the cache.
  void read_keys(int layer, int head_kv, int first, std::span<float> out) const;
  void read_values(int layer, int head_kv, int first, std::span<float> out) const;

  /// Writes head_dim floats as key (value) of entry `index`, which may belong to a pending append
  /// that check_append() allowed. Unchecked, as it is called from inside kernels; safe from several
  /// threads for different entries.
  void write_entry(int layer, int head_kv, int index, const float* key, const float* value);

  /// Makes sure that `count` entries can follow in every (layer, KV head); throws Error(memory)
  /// where n_ctx does not allow it and Error(internal) for a negative count. Entries become part of
  /// the cache with commit_append: until then the cache is as it was.
  void check_append(int count) const;
  /// Adds `count` written entries at positions next_position() .. +count-1 to every row. Throws as
  /// check_append does, and then nothing has changed.
  void commit_append(int count);

  /// Keeps what the plan says and gives the rest back to the system. log_weights add to those
  /// there, values take the place of those there. Throws Error(internal) for a malformed plan
  /// (unsorted, out of range, an empty row where there were entries, wrong sizes, weights or values
  /// that are not finite), in which case nothing has changed.
  void apply(const Plan& plan);

  /// A copy of everything that has been committed.
  KvCache fork() const;

  /// The position before which both caches, forks of one another, still hold the same entries; 0
  /// where they have nothing in common.
  int32_t same_before(const KvCache& other) const;

  /// Removes entries with position >= `position`; the next token takes it. Throws Error(usage) for
  /// a position above next_position() or below zero.
  void trim(int32_t position);

  CacheBytes bytes() const;

 private:
  struct Row {
    std::vector<int32_t> positions;
    std::vector<float> log_weights;  // empty while all are zero
    size_t pages = 0;                // pages that committed entries have taken and not given back
  };

  /// Entries at positions from `from` to the next stretch, in all rows, as one cache wrote or
  /// compressed them. Forks hold the same `written`, and who holds it alone may append to it.
  struct Stretch {
    std::shared_ptr<const bool> written;
    int32_t from = 0;
  };

  struct Unmap {
    size_t bytes;
    void operator()(std::byte* base) const;
  };

  size_t row_index(int layer, int head_kv) const {
    return size_t(layer) * size_t(geometry_.n_head_kv) + size_t(head_kv);
  }
  const Row& row(int layer, int head_kv) const { return rows_[row_index(layer, head_kv)]; }
  int32_t end_of(size_t stretch) const;
  const std::byte* checked_entry(int layer, int head_kv, int first, size_t numbers) const;
  std::vector<float> summed_log_weights(const Row& row, const RowPlan& plan) const;
  void write_values(size_t index, std::span<const float> values);
  void release_tail(size_t index);

  CacheGeometry geometry_;
  std::vector<Row> rows_;
  std::vector<Stretch> stretches_;  // by position
  size_t head_stride_ = 0;
  std::unique_ptr<std::byte, Unmap> base_;  // n_layer * n_head_kv * head_stride_ bytes
  int32_t next_position_ = 0;
};

/// `cache` as policies see it. The cache must outlive the view.
std::unique_ptr<CacheView> view_of(const KvCache& cache, const ModelShape& shape);

}  // namespace pith
