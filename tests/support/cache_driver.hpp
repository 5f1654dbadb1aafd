#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cache/kv_cache.h"
#include "reference/cache.hpp"

namespace pith::testing {

inline constexpr size_t kMostSequences = 3;

inline void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

/// The bytes as choices; zeros once they have ended.
class Choices {
 public:
  explicit Choices(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool ended() const { return bytes_.empty(); }
  uint32_t byte() {
    if (bytes_.empty()) return 0;
    const uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }
  uint32_t wide() { return byte() * 256 + byte(); }

 private:
  std::span<const uint8_t> bytes_;
};

inline uint32_t mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

/// Sixteenths below 128: exact in f16, so that no type rounds.
inline float exact_number(uint32_t seed) { return float(int(mix(seed) % 4096) - 2048) / 16; }

inline std::vector<float> exact_vector(int size, uint32_t seed) {
  std::vector<float> numbers(static_cast<size_t>(size));
  for (float& number : numbers) number = exact_number(seed++);
  return numbers;
}

inline CacheGeometry choose_geometry(Choices& choices) {
  constexpr int kHeadDims[] = {1, 2, 8, 20, 64};
  return {.n_layer = int(1 + choices.byte() % 3),
          .n_head_kv = int(1 + choices.byte() % 3),
          .head_dim = kHeadDims[choices.byte() % 5],
          .k_type = choices.byte() % 2 == 0 ? KvType::f16 : KvType::f32,
          .v_type = choices.byte() % 2 == 0 ? KvType::f16 : KvType::f32,
          .n_ctx = int(1 + choices.wide() % 300)};
}

/// A cache and its reference, which have been through the same operations.
struct Sequence {
  KvCache cache;
  reference::Cache twin;
};

inline RowPlan row_keeping(std::vector<int32_t> entries) { return {std::move(entries), {}}; }

/// True where `call` throws Error(code).
inline bool refuses(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == code;
  }
  return false;
}

class CacheDriver {
 public:
  CacheDriver(const CacheGeometry& geometry, Choices& choices)
      : geometry_(geometry),
        n_rows_(size_t(geometry.n_layer) * size_t(geometry.n_head_kv)),
        choices_(choices) {
    sequences_.push_back({KvCache(geometry), reference::Cache(n_rows_)});
  }

  void step() {
    Sequence& sequence = sequences_[choices_.byte() % sequences_.size()];
    switch (choices_.byte() % 8) {
      case 0:
      case 1:
        append(sequence, choices_.wide() % 160);
        break;
      case 2:
        write_pending(sequence, choices_.byte(), nullptr);  // never committed: must not show
        break;
      case 3:
        apply(sequence);
        break;
      case 4:
        apply_malformed(sequence);
        break;
      case 5:
        fork(sequence);
        break;
      case 6:
        trim(sequence);
        break;
      default:
        append_too_much(sequence);
    }
    for (const Sequence& each : sequences_) compare(each);
  }

 private:
  int layer(size_t row) const { return int(row) / geometry_.n_head_kv; }
  int head(size_t row) const { return int(row) % geometry_.n_head_kv; }

  /// Writes up to `count` entries where they fit; `written` receives them, a row a token.
  size_t write_pending(Sequence& sequence, size_t count,
                       std::vector<std::vector<reference::CacheEntry>>* written) {
    count = std::min(count, size_t(geometry_.n_ctx) - sequence.twin.longest());
    sequence.cache.check_append(int(count));
    for (size_t t = 0; t < count; ++t) {
      std::vector<reference::CacheEntry> token;
      for (size_t row = 0; row < n_rows_; ++row) {
        serial_ += 1000;
        token.push_back({.key = exact_vector(geometry_.head_dim, serial_),
                         .value = exact_vector(geometry_.head_dim, serial_ + 500)});
        sequence.cache.write_entry(layer(row), head(row), int(sequence.twin.row(row).size() + t),
                                   token[row].key.data(), token[row].value.data());
      }
      if (written != nullptr) written->push_back(std::move(token));
    }
    return count;
  }

  void append(Sequence& sequence, size_t count) {
    std::vector<std::vector<reference::CacheEntry>> written;
    count = write_pending(sequence, count, &written);
    compare(sequence);
    sequence.cache.commit_append(int(count));
    for (const auto& token : written) sequence.twin.append(token);
  }

  void append_too_much(Sequence& sequence) {
    const int count = geometry_.n_ctx - int(sequence.twin.longest()) + 1 + int(choices_.byte());
    expect(refuses(ErrorCode::memory, [&] { sequence.cache.check_append(count); }),
           "check_append took more than n_ctx");
    expect(refuses(ErrorCode::memory, [&] { sequence.cache.commit_append(count); }),
           "commit_append took more than n_ctx");
    expect(refuses(ErrorCode::internal, [&] { sequence.cache.commit_append(-1); }),
           "commit_append took a negative count");
  }

  /// Keeps each entry with the same chance and at least one; weights are absent, zero or exact.
  Plan choose_plan(const Sequence& sequence) {
    Plan plan;
    for (size_t row = 0; row < n_rows_; ++row) {
      RowPlan kept;
      const uint32_t share = choices_.byte(), weighing = choices_.byte() % 4;
      const size_t length = sequence.twin.row(row).size();
      for (size_t i = 0; i < length; ++i) {
        if (mix(++serial_) % 255 < share) kept.keep.push_back(int32_t(i));
      }
      if (kept.keep.empty() && length > 0) kept.keep.push_back(int32_t(mix(share) % length));
      if (weighing > 0) kept.log_weight.resize(kept.keep.size(), 0.0F);
      for (float& weight : kept.log_weight) {
        if (weighing > 1) weight = exact_number(++serial_);
      }
      if (weighing == 3) cancel_weights(sequence.twin.row(row), kept);
      plan.rows.push_back(std::move(kept));
    }
    return plan;
  }

  static void cancel_weights(const std::vector<reference::CacheEntry>& row, RowPlan& kept) {
    for (size_t i = 0; i < kept.keep.size(); ++i) {
      kept.log_weight[i] = -row[size_t(kept.keep[i])].log_weight;
    }
  }

  void apply(Sequence& sequence) {
    const Plan plan = choose_plan(sequence);
    sequence.cache.apply(plan);
    sequence.twin.apply(plan);
  }

  /// Spoils one row, often the last, of a plan that would otherwise change much.
  void apply_malformed(Sequence& sequence) {
    Plan plan = choose_plan(sequence);
    RowPlan& row = plan.rows[choices_.byte() % n_rows_];
    const int32_t length = int32_t(sequence.twin.row(size_t(&row - plan.rows.data())).size());
    switch (choices_.byte() % 8) {
      case 0:
        row = row_keeping({length});
        break;
      case 1:
        row = row_keeping({-1});
        break;
      case 2:
        row = row_keeping({0, 0});
        break;
      case 3:
        row = length > 1 ? row_keeping({1, 0}) : row_keeping({1});
        break;
      case 4:
        row.log_weight.resize(row.keep.size() + 1);
        break;
      case 5:
        plan.rows.pop_back();
        break;
      case 6:
        row = length > 0 ? row_keeping({}) : row_keeping({0});
        break;
      default:
        if (length == 0) row.keep = {0};
        row.log_weight.assign(row.keep.size(), std::numeric_limits<float>::quiet_NaN());
    }
    expect(refuses(ErrorCode::internal, [&] { sequence.cache.apply(plan); }),
           "apply took a malformed plan");
  }

  void fork(Sequence& sequence) {
    Sequence copy = {sequence.cache.fork(), sequence.twin};
    if (sequences_.size() < kMostSequences) {
      sequences_.push_back(std::move(copy));
    } else {
      sequences_[choices_.byte() % kMostSequences] = std::move(copy);
    }
  }

  void trim(Sequence& sequence) {
    const int32_t next = sequence.twin.next_position();
    expect(refuses(ErrorCode::usage, [&] { sequence.cache.trim(next + 1); }) &&
               refuses(ErrorCode::usage, [&] { sequence.cache.trim(-1); }),
           "trim took a position out of range");
    const int32_t position = int32_t(choices_.wide()) % (next + 1);
    sequence.cache.trim(position);
    sequence.twin.trim(position);
  }

  void compare(const Sequence& sequence) const {
    const KvCache& cache = sequence.cache;
    size_t total = 0, weighted = 0;
    for (size_t row = 0; row < n_rows_; ++row) {
      compare_row(cache, row, sequence.twin.row(row));
      total += sequence.twin.row(row).size();
      weighted += cache.log_weights(layer(row), head(row)).size();
    }
    const CacheBytes bytes = cache.bytes();
    expect(cache.next_position() == sequence.twin.next_position(), "next position differs");
    expect(size_t(cache.total_entries()) == total, "total entries differ");
    expect(bytes.entries == total * geometry_.entry_bytes(), "bytes of entries differ");
    expect(bytes.positions == total * sizeof(int32_t), "bytes of positions differ");
    expect(bytes.log_weights == weighted * sizeof(float), "bytes of log-weights differ");
    expect(bytes.resident >= bytes.total(), "less is resident than is used");
  }

  void compare_row(const KvCache& cache, size_t row,
                   const std::vector<reference::CacheEntry>& expected) const {
    const std::string where = " of row " + std::to_string(row) + " differs";
    const size_t dim = size_t(geometry_.head_dim), length = expected.size();
    expect(size_t(cache.length(layer(row), head(row))) == length, "length" + where);
    expect(cache.longest(layer(row)) >= int(length), "longest" + where);
    const auto positions = cache.positions(layer(row), head(row));
    const auto weights = cache.log_weights(layer(row), head(row));
    const bool weighted =
        std::ranges::any_of(expected, [](const auto& entry) { return entry.log_weight != 0; });
    expect(weights.size() == (weighted ? length : 0), "presence of log-weights" + where);
    std::vector<float> keys(length * dim), values(length * dim);
    cache.read_keys(layer(row), head(row), 0, keys);
    cache.read_values(layer(row), head(row), 0, values);
    for (size_t i = 0; i < length; ++i) {
      const std::span key = std::span(keys).subspan(i * dim, dim);
      const std::span value = std::span(values).subspan(i * dim, dim);
      expect(positions[i] == expected[i].position, "a position" + where);
      expect(std::ranges::equal(key, expected[i].key), "a key" + where);
      expect(std::ranges::equal(value, expected[i].value), "a value" + where);
      expect(!weighted || weights[i] == expected[i].log_weight, "a log-weight" + where);
    }
  }

  CacheGeometry geometry_;
  size_t n_rows_;
  Choices& choices_;
  std::vector<Sequence> sequences_;
  uint32_t serial_ = 0;
};

/// Reads `bytes` as a geometry and a list of operations (append, append given up, apply, malformed
/// apply, fork, trim, append beyond the context), carries each out on a KvCache and on the
/// reference, and compares all that can be seen of them after each. Any bytes are valid. Throws
/// std::runtime_error saying what differs. Shared by the test and the fuzz target.
inline void drive_cache(std::span<const uint8_t> bytes) {
  Choices choices(bytes);
  CacheDriver driver(choose_geometry(choices), choices);
  while (!choices.ended()) driver.step();
}

}  // namespace pith::testing
