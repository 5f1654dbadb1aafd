#!/usr/bin/env python3
"""Opens a report of `pith compare --html` in headless Chromium and fails on what a reader would trip over.

usage: report_check.py FILE.html [--screenshots FOLDER]

Light and dark, at 1280 and 390 pixels: messages on the console, requests other than the file itself,
a page wider than the screen, text of less than 11 pixels on a phone, text too faint for its ground,
charts that are missing or have no size. Exits 77 where there is no Chromium or no chromedriver.
"""

import argparse
import base64
import json
import pathlib
import shutil
import sys

SKIPPED = 77
WIDTHS = (1280, 390)
SMALLEST_TEXT = 11

# In the page: what is wrong, as a list of lines.
LOOK = r"""
const wrong = [];
const phone = arguments[0] < 640, smallest = arguments[1];
const root = document.documentElement;
if (root.scrollWidth > root.clientWidth) wrong.push(`the page is ${root.scrollWidth} px wide on ${root.clientWidth}`);
const charts = document.querySelectorAll('svg.chart');
if (charts.length < 4) wrong.push(`only ${charts.length} charts`);
for (const chart of charts) {
  const box = chart.getBoundingClientRect();
  if (box.width < 50 || box.height < 20) wrong.push(`chart without size: ${chart.getAttribute('aria-label')}`);
  if (!chart.getAttribute('aria-label')) wrong.push('a chart has no label');
  if (!chart.querySelector('path,rect')) wrong.push(`empty chart: ${chart.getAttribute('aria-label')}`);
}
const rgb = color => color.match(/[\d.]+/g).map(Number);
const light = color => {
  const [r, g, b] = rgb(color).slice(0, 3).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = e => {
  for (; e; e = e.parentElement) {
    const color = getComputedStyle(e).backgroundColor;
    if (color !== 'transparent' && (rgb(color)[3] ?? 1) > 0) return color;
  }
  return 'rgb(255,255,255)';
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, e = node.parentElement;
  if (!node.data.trim() || e.closest('title') || !e.checkVisibility()) continue;
  const style = getComputedStyle(e), svg = e.closest('svg.chart');
  const scale = svg ? svg.getScreenCTM().a : 1, size = parseFloat(style.fontSize) * scale;
  if (phone && size < smallest) wrong.push(`${size.toFixed(1)} px: ${node.data.trim().slice(0, 40)}`);
  const a = light(svg ? style.fill : style.color), b = light(ground(e));
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) wrong.push(`contrast ${contrast.toFixed(1)}: ${node.data.trim().slice(0, 40)}`);
  if (svg) {
    const box = e.getBoundingClientRect(), frame = svg.getBoundingClientRect();
    if (box.left < frame.left - 2 || box.right > frame.right + 2) wrong.push(`cut off: ${node.data.slice(0, 40)}`);
  }
}
return wrong;
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def start_browser():
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver:
        skip("no chromium or no chromedriver (scripts/setup --browser installs them)")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        skip("no selenium for Python (scripts/setup --browser installs it)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service(driver), options=options)


def requests(browser):
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


def look(browser, url, scheme, width, folder):
    """What is wrong with the page at this width, a line each."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 640}
    )
    browser.get(url)
    wrong = list(browser.execute_script(LOOK, width, SMALLEST_TEXT))
    wrong += [f"console: {entry['message']}" for entry in browser.get_log("browser")]
    wrong += [f"request: {other}" for other in requests(browser) if other != url and not other.startswith("data:")]
    if folder:
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        (folder / f"{scheme}-{width}.png").write_bytes(base64.b64decode(shot["data"]))
    return [f"{scheme}, {width} px: {line}" for line in wrong]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--screenshots", type=pathlib.Path)
    arguments = parser.parse_args()
    url = arguments.file.resolve().as_uri()
    if arguments.screenshots:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    browser = start_browser()
    try:
        wrong = [
            line for scheme in ("light", "dark") for width in WIDTHS for line in look(browser, url, scheme, width, arguments.screenshots)
        ]
    finally:
        browser.quit()
    print("\n".join(wrong) or "nothing wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
