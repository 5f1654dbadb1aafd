#include "eval/html_page.h"

#include <filesystem>

#include "eval/html_style.h"
#include "eval/svg_chart.h"

namespace pith {

std::string page_head(const std::string& title) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
         "'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n<title>" +
         escaped(title) + "</title>\n<style>" + std::string(html_style()) +
         "</style></head>\n<body>";
}

std::string html_section(const std::string& heading, const std::string& words) {
  return "<h2>" + escaped(heading) + "</h2>\n<p class=\"soft\">" + escaped(words) + "</p>\n";
}

std::string html_figure(const std::string& heading, const std::string& chart_html,
                        const std::string& caption) {
  std::string out = "<figure><h3>" + escaped(heading) + "</h3>" + chart_html;
  if (!caption.empty()) out += "<figcaption>" + escaped(caption) + "</figcaption>";
  return out + "</figure>\n";
}

std::string html_cells(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += "<td>" + escaped(text) + "</td>";
  return out;
}

std::string html_table(const std::string& label, const std::vector<std::string>& heading,
                       const std::string& rows_html) {
  std::string out = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" +
                    escaped(label) + "\"><table><thead><tr>";
  for (const std::string& text : heading) out += "<th scope=\"col\">" + escaped(text) + "</th>";
  return out + "</tr></thead><tbody>\n" + rows_html + "</tbody></table></div>\n";
}

std::string html_entry(const std::string& name, const std::string& html) {
  return html.empty() ? "" : "<dt>" + escaped(name) + "</dt><dd>" + html + "</dd>";
}

std::string how_measured(const std::string& command, const std::string& model,
                         const Machine& machine, const std::string& more_html,
                         const std::vector<std::string>& notes) {
  std::string notes_html;
  for (const std::string& note : notes) notes_html += escaped(note) + "<br>";
  return "<h2>How it was measured</h2>\n<dl>" +
         html_entry("Command", "<code>" + escaped(command) + "</code>") +
         html_entry("Model", "<code>" + escaped(model) + "</code>") +
         html_entry("Machine", escaped(machine.cpu + ", " + std::to_string(machine.cores) +
                                       " cores, " + machine.os)) +
         more_html + html_entry("Notes", notes_html) + "</dl>\n";
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace pith
