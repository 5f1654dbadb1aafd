#pragma once

#include <cstdint>
#include <vector>

#include "pith/policy.hpp"

namespace pith::reference {

struct CacheEntry {
  int32_t position = 0;
  float log_weight = 0;
  std::vector<float> key;
  std::vector<float> value;
};

/// What KvCache promises, with a vector of entries for each (layer, KV head). It checks nothing.
class Cache {
 public:
  explicit Cache(size_t n_rows) : rows_(n_rows) {}

  const std::vector<CacheEntry>& row(size_t index) const { return rows_[index]; }
  size_t n_rows() const { return rows_.size(); }
  int32_t next_position() const { return next_position_; }

  size_t longest() const {
    size_t longest = 0;
    for (const auto& row : rows_) longest = row.size() > longest ? row.size() : longest;
    return longest;
  }

  /// `entries` [n_rows] are what each row gets at the next position.
  void append(const std::vector<CacheEntry>& entries) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].push_back(entries[i]);
      rows_[i].back().position = next_position_;
    }
    ++next_position_;
  }

  void apply(const Plan& plan) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      const RowPlan& kept = plan.rows[i];
      std::vector<CacheEntry> row;
      for (size_t j = 0; j < kept.keep.size(); ++j) {
        row.push_back(rows_[i][size_t(kept.keep[j])]);
        if (!kept.log_weight.empty()) row.back().log_weight += kept.log_weight[j];
      }
      rows_[i] = row;
    }
  }

  void trim(int32_t position) {
    for (auto& row : rows_) {
      std::erase_if(row, [&](const CacheEntry& entry) { return entry.position >= position; });
    }
    next_position_ = position;
  }

 private:
  std::vector<std::vector<CacheEntry>> rows_;
  int32_t next_position_ = 0;
};

}  // namespace pith::reference
