#pragma once

#include <string>
#include <vector>

namespace pith {

/// Cells lined up in columns for a terminal: the first `left` columns to the left, the rest to the
/// right, a rule under the heading.
class TextTable {
 public:
  TextTable(std::vector<std::string> heading, size_t left)
      : lines_{std::move(heading)}, left_(left) {}
  void add(std::vector<std::string> cells) { lines_.push_back(std::move(cells)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> lines_;
  size_t left_;
};

/// `value` with `digits` after the point; "-" where it is not a number.
std::string fixed(double value, int digits);

/// `value` in short form with `digits` significant ones; "-" where it is not a number.
std::string significant(double value, int digits);

/// Bytes as KiB, MiB or GiB with one digit after the point.
std::string bytes_text(double bytes);

/// 7660 as "7,660".
std::string grouped(long long value);

}  // namespace pith
