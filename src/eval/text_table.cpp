#include "eval/text_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace pith {
namespace {

/// Terminal columns of UTF-8 text whose characters are all one column wide.
size_t width(const std::string& text) {
  return size_t(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string print(const char* format, int digits, double value) {
  if (std::isnan(value)) return "-";
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, digits, value);
  return buffer;
}

}  // namespace

std::string TextTable::text() const {
  std::vector<size_t> widths(lines_[0].size());
  for (const auto& line : lines_) {
    for (size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], width(line[c]));
  }
  std::string out;
  for (size_t l = 0; l < lines_.size(); ++l) {
    std::string row;
    for (size_t c = 0; c < lines_[l].size(); ++c) {
      const std::string padding(widths[c] - width(lines_[l][c]), ' ');
      if (c > 0) row += "  ";
      row += c < left_ ? lines_[l][c] + padding : padding + lines_[l][c];
    }
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + "\n";
    if (l > 0) continue;
    size_t rule = 2 * (widths.size() - 1);
    for (const size_t w : widths) rule += w;
    out += std::string(rule, '-') + "\n";
  }
  return out;
}

std::string fixed(double value, int digits) { return print("%.*f", digits, value); }

std::string significant(double value, int digits) { return print("%.*g", digits, value); }

std::string bytes_text(double bytes) {
  if (bytes >= 1024.0 * 1024 * 1024) return fixed(bytes / (1024.0 * 1024 * 1024), 1) + " GiB";
  if (bytes >= 1024.0 * 1024) return fixed(bytes / (1024.0 * 1024), 1) + " MiB";
  return fixed(bytes / 1024, 1) + " KiB";
}

std::string grouped(long long value) {
  std::string digits = std::to_string(value);
  const size_t sign = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > sign + 3;) digits.insert(at -= 3, ",");
  return digits;
}

}  // namespace pith
