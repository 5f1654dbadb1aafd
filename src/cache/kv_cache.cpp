#include "cache/kv_cache.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "cache/hadamard.h"
#include "cache/kv_type.h"

namespace pith {
namespace {

/// Numbers of a key that write_entry() has room to rotate.
constexpr int kMostRotated = 1024;

size_t page_bytes() {
  static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

size_t pages_for(size_t bytes) { return round_up(bytes, page_bytes()) / page_bytes(); }

size_t checked_product(size_t a, size_t b) {
  size_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw Error(ErrorCode::memory, "the cache would be larger than the address space");
  }
  return product;
}

void check_type(KvType type, int head_dim) {
  const int block = kv_block(type);
  if (head_dim % block == 0 && (block == 1 || head_dim <= kMostRotated)) return;
  throw Error(ErrorCode::usage, "a cache of " + std::string(kKvTypeNames[size_t(type)]) +
                                    " needs heads of a multiple of " + std::to_string(block) +
                                    " numbers, " + std::to_string(kMostRotated) +
                                    " at most; these have " + std::to_string(head_dim));
}

/// Bytes between the first entries of two heads: every entry that may be read, in whole pages.
size_t stride_of(const CacheGeometry& geometry) {
  if (std::min({geometry.n_layer, geometry.n_head_kv, geometry.head_dim, geometry.n_ctx}) < 1) {
    throw Error(ErrorCode::internal, "a cache needs at least one layer, head, number and position");
  }
  check_type(geometry.k_type, geometry.head_dim);
  check_type(geometry.v_type, geometry.head_dim);
  const size_t readable = round_up(size_t(geometry.n_ctx), size_t(kReadableEntries));
  return round_up(checked_product(readable, geometry.entry_bytes()), page_bytes());
}

std::byte* reserve(size_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw Error(ErrorCode::memory, "no address space for a cache of " +
                                       std::to_string(bytes >> 20) +
                                       " MiB; ask for a smaller context");
  }
  // Huge pages would make one entry take 2 MiB. It fails only where the system has none to give.
  madvise(base, bytes, MADV_NOHUGEPAGE);
  return static_cast<std::byte*>(base);
}

Error malformed(size_t row, const std::string& what) {
  return Error(ErrorCode::internal, "malformed plan, row " + std::to_string(row) + ": " + what);
}

void check_row_plan(size_t index, const RowPlan& plan, size_t length, size_t head_dim) {
  if (plan.keep.empty() && length > 0) throw malformed(index, "it keeps no entry");
  int32_t least = 0;
  for (const int32_t entry : plan.keep) {
    if (entry < least) throw malformed(index, "entries are not ascending");
    if (size_t(entry) >= length) {
      throw malformed(index, "entry " + std::to_string(entry) + " of " + std::to_string(length));
    }
    least = entry + 1;
  }
  if (!plan.log_weight.empty() && plan.log_weight.size() != plan.keep.size()) {
    throw malformed(index, "as many log-weights as entries are needed, or none");
  }
  if (!plan.values.empty() && plan.values.size() != plan.keep.size() * head_dim) {
    throw malformed(index, "as many values as entries are needed, or none");
  }
  if (!std::ranges::all_of(plan.values, [](float x) { return std::isfinite(x); })) {
    throw malformed(index, "values are not finite");
  }
}

/// Log-weights are absent, not just zero, while all are zero.
void normalize(std::vector<float>& log_weights) {
  if (std::ranges::all_of(log_weights, [](float weight) { return weight == 0; })) {
    log_weights.clear();
  }
  log_weights.shrink_to_fit();
}

/// Moves the kept entries to the front. Entries only ever move down, so that going up through an
/// ascending list never overwrites one that is still to move.
void compact_entries(std::byte* entries, size_t entry_bytes, std::span<const int32_t> keep) {
  for (size_t to = 0; to < keep.size();) {
    const size_t from = size_t(keep[to]);
    size_t run = 1;
    while (to + run < keep.size() && size_t(keep[to + run]) == from + run) ++run;
    if (from != to) {
      std::memmove(entries + to * entry_bytes, entries + from * entry_bytes, run * entry_bytes);
    }
    to += run;
  }
}

void compact_positions(std::vector<int32_t>& positions, std::span<const int32_t> keep) {
  for (size_t to = 0; to < keep.size(); ++to) positions[to] = positions[size_t(keep[to])];
  positions.resize(keep.size());
  positions.shrink_to_fit();
}

/// Room for `count` more, growing geometrically: decode appends one at a time.
template <typename T>
void make_room(std::vector<T>& numbers, size_t count) {
  const size_t needed = numbers.size() + count;
  if (needed > numbers.capacity()) numbers.reserve(std::max(needed, 2 * numbers.capacity()));
}

}  // namespace

size_t CacheGeometry::key_bytes() const { return kv_vector_bytes(k_type, head_dim); }
size_t CacheGeometry::value_bytes() const { return kv_vector_bytes(v_type, head_dim); }

void KvCache::Unmap::operator()(std::byte* base) const { munmap(base, bytes); }

KvCache::KvCache(const CacheGeometry& geometry)
    : geometry_(geometry), head_stride_(stride_of(geometry)), base_(nullptr, Unmap{0}) {
  const size_t n_rows = size_t(geometry.n_layer) * size_t(geometry.n_head_kv);
  const size_t bytes = checked_product(n_rows, head_stride_);
  rows_.resize(n_rows);
  base_ = std::unique_ptr<std::byte, Unmap>(reserve(bytes), Unmap{bytes});
}

int KvCache::length(int layer, int head_kv) const {
  return int(row(layer, head_kv).positions.size());
}

int KvCache::longest(int layer) const {
  int longest = 0;
  for (int head = 0; head < geometry_.n_head_kv; ++head) {
    longest = std::max(longest, length(layer, head));
  }
  return longest;
}

int64_t KvCache::total_entries() const {
  int64_t total = 0;
  for (const Row& row : rows_) total += int64_t(row.positions.size());
  return total;
}

std::span<const int32_t> KvCache::positions(int layer, int head_kv) const {
  return row(layer, head_kv).positions;
}

std::span<const float> KvCache::log_weights(int layer, int head_kv) const {
  return row(layer, head_kv).log_weights;
}

std::byte* KvCache::entries(int layer, int head_kv) {
  return base_.get() + row_index(layer, head_kv) * head_stride_;
}

const std::byte* KvCache::entries(int layer, int head_kv) const {
  return base_.get() + row_index(layer, head_kv) * head_stride_;
}

const std::byte* KvCache::checked_entry(int layer, int head_kv, int first, size_t numbers) const {
  const size_t head_dim = size_t(geometry_.head_dim);
  const bool known = layer >= 0 && layer < geometry_.n_layer && head_kv >= 0 &&
                     head_kv < geometry_.n_head_kv && first >= 0 && numbers % head_dim == 0;
  if (!known || size_t(first) + numbers / head_dim > size_t(length(layer, head_kv))) {
    throw Error(ErrorCode::internal, "read outside the cache: layer " + std::to_string(layer) +
                                         ", KV head " + std::to_string(head_kv) + ", entry " +
                                         std::to_string(first));
  }
  return entries(layer, head_kv) + size_t(first) * geometry_.entry_bytes();
}

void KvCache::read_keys(int layer, int head_kv, int first, std::span<float> out) const {
  const std::byte* entry = checked_entry(layer, head_kv, first, out.size());
  const size_t stride = geometry_.entry_bytes();
  for (size_t i = 0; i < out.size(); i += size_t(geometry_.head_dim), entry += stride) {
    kv_to_float(geometry_.k_type, entry, &out[i], geometry_.head_dim);
    if (keeps_keys_rotated(geometry_.k_type)) hadamard(&out[i], geometry_.head_dim);
  }
}

void KvCache::read_values(int layer, int head_kv, int first, std::span<float> out) const {
  const std::byte* entry = checked_entry(layer, head_kv, first, out.size());
  const size_t stride = geometry_.entry_bytes(), offset = geometry_.key_bytes();
  for (size_t i = 0; i < out.size(); i += size_t(geometry_.head_dim), entry += stride) {
    kv_to_float(geometry_.v_type, entry + offset, &out[i], geometry_.head_dim);
  }
}

void KvCache::write_entry(int layer, int head_kv, int index, const float* key, const float* value) {
  std::byte* entry = entries(layer, head_kv) + size_t(index) * geometry_.entry_bytes();
  std::array<float, kMostRotated> rotated;
  if (keeps_keys_rotated(geometry_.k_type)) {
    std::copy_n(key, geometry_.head_dim, rotated.begin());
    hadamard(rotated.data(), geometry_.head_dim);
    key = rotated.data();
  }
  kv_from_float(geometry_.k_type, key, entry, geometry_.head_dim);
  kv_from_float(geometry_.v_type, value, entry + geometry_.key_bytes(), geometry_.head_dim);
}

void KvCache::write_values(size_t index, std::span<const float> values) {
  std::byte* value = base_.get() + index * head_stride_ + geometry_.key_bytes();
  for (size_t at = 0; at < values.size(); at += size_t(geometry_.head_dim)) {
    kv_from_float(geometry_.v_type, values.data() + at, value, geometry_.head_dim);
    value += geometry_.entry_bytes();
  }
}

void KvCache::check_append(int count) const {
  if (count < 0) throw Error(ErrorCode::internal, "an append of fewer than no entries");
  size_t longest = 0;
  for (const Row& row : rows_) longest = std::max(longest, row.positions.size());
  const bool fits = longest + size_t(count) <= size_t(geometry_.n_ctx) &&
                    count <= std::numeric_limits<int32_t>::max() - next_position_;
  if (!fits) {
    throw Error(ErrorCode::memory,
                std::to_string(count) + " more tokens do not fit the context of " +
                    std::to_string(geometry_.n_ctx) + " (" + std::to_string(longest) + " used)");
  }
}

void KvCache::commit_append(int count) {
  check_append(count);
  if (count == 0) return;
  for (Row& row : rows_) {
    make_room(row.positions, size_t(count));
    if (!row.log_weights.empty()) make_room(row.log_weights, size_t(count));
  }
  if (stretches_.empty() || stretches_.back().written.use_count() > 1) {
    stretches_.push_back({std::make_shared<bool>(), next_position_});
  }
  for (Row& row : rows_) {
    for (int i = 0; i < count; ++i) row.positions.push_back(next_position_ + i);
    if (!row.log_weights.empty()) row.log_weights.resize(row.positions.size(), 0.0F);
    row.pages = std::max(row.pages, pages_for(row.positions.size() * geometry_.entry_bytes()));
  }
  next_position_ += count;
}

std::vector<float> KvCache::summed_log_weights(const Row& row, const RowPlan& plan) const {
  if (row.log_weights.empty() && plan.log_weight.empty()) return {};
  std::vector<float> sum = plan.log_weight;
  sum.resize(plan.keep.size(), 0.0F);
  for (size_t i = 0; i < sum.size() && !row.log_weights.empty(); ++i) {
    sum[i] += row.log_weights[size_t(plan.keep[i])];
  }
  normalize(sum);
  return sum;
}

void KvCache::apply(const Plan& plan) {
  if (plan.rows.size() != rows_.size()) {
    throw Error(ErrorCode::internal, "malformed plan: " + std::to_string(plan.rows.size()) +
                                         " rows for a cache of " + std::to_string(rows_.size()));
  }
  std::vector<std::vector<float>> log_weights(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    check_row_plan(i, plan.rows[i], rows_[i].positions.size(), size_t(geometry_.head_dim));
    log_weights[i] = summed_log_weights(rows_[i], plan.rows[i]);
    if (!std::ranges::all_of(log_weights[i], [](float weight) { return std::isfinite(weight); })) {
      throw malformed(i, "log-weights are not finite");
    }
  }
  std::vector<Stretch> rewritten = {{std::make_shared<bool>()}};
  // Nothing below throws: the plan is carried out as a whole or not at all.
  for (size_t i = 0; i < rows_.size(); ++i) {
    const std::vector<int32_t>& keep = plan.rows[i].keep;
    compact_entries(base_.get() + i * head_stride_, geometry_.entry_bytes(), keep);
    write_values(i, plan.rows[i].values);
    compact_positions(rows_[i].positions, keep);
    rows_[i].log_weights = std::move(log_weights[i]);
    release_tail(i);
  }
  stretches_ = std::move(rewritten);
}

KvCache KvCache::fork() const {
  KvCache copy(geometry_);
  copy.next_position_ = next_position_;
  copy.stretches_ = stretches_;
  copy.rows_ = rows_;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const size_t bytes = rows_[i].positions.size() * geometry_.entry_bytes();
    std::memcpy(copy.base_.get() + i * head_stride_, base_.get() + i * head_stride_, bytes);
    copy.rows_[i].pages = pages_for(bytes);
  }
  return copy;
}

void KvCache::trim(int32_t position) {
  if (position < 0 || position > next_position_) {
    throw Error(ErrorCode::usage, "cannot trim to position " + std::to_string(position) +
                                      ": 0 to " + std::to_string(next_position_) + " can be kept");
  }
  for (size_t i = 0; i < rows_.size(); ++i) {
    Row& row = rows_[i];
    const auto end = std::ranges::lower_bound(row.positions, position);
    row.positions.erase(end, row.positions.end());
    row.positions.shrink_to_fit();
    if (!row.log_weights.empty()) {
      row.log_weights.resize(row.positions.size());
      normalize(row.log_weights);
    }
    release_tail(i);
  }
  std::erase_if(stretches_, [&](const Stretch& stretch) { return stretch.from >= position; });
  next_position_ = position;
}

int32_t KvCache::end_of(size_t stretch) const {
  return stretch + 1 < stretches_.size() ? stretches_[stretch + 1].from : next_position_;
}

int32_t KvCache::same_before(const KvCache& other) const {
  int32_t same = 0;
  for (size_t i = 0; i < std::min(stretches_.size(), other.stretches_.size()); ++i) {
    if (stretches_[i].written != other.stretches_[i].written) break;
    same = std::min(end_of(i), other.end_of(i));
  }
  return same;
}

void KvCache::release_tail(size_t index) {
  Row& row = rows_[index];
  const size_t pages = pages_for(row.positions.size() * geometry_.entry_bytes());
  const size_t used = pages * page_bytes();
  // Up to the end of the row, as an append that was never committed has taken pages, too. Pages
  // that the process has locked stay, and stay counted.
  if (used < head_stride_ &&
      madvise(base_.get() + index * head_stride_ + used, head_stride_ - used, MADV_DONTNEED) == 0) {
    row.pages = pages;
  }
}

CacheBytes KvCache::bytes() const {
  CacheBytes bytes;
  for (const Row& row : rows_) {
    bytes.entries += row.positions.size() * geometry_.entry_bytes();
    bytes.positions += row.positions.size() * sizeof(int32_t);
    bytes.log_weights += row.log_weights.size() * sizeof(float);
    bytes.resident += row.pages * page_bytes() + row.positions.capacity() * sizeof(int32_t) +
                      row.log_weights.capacity() * sizeof(float);
  }
  return bytes;
}

}  // namespace pith
