#include "ops/window.h"

#include <fmt/core.h>

#include "ops/check.h"

namespace plimsoll::ops {

std::string attribute_text(const Window& window) {
  return fmt::format("{}x{} pad {},{},{},{}", window.stride_h, window.stride_w, window.top, window.bottom, window.left,
                     window.right);
}

void require_images(const Shape& x, std::string_view where) {
  require(x.rank() == 4 && x.elements() > 0, where, "x is " + to_text(x), "images (batch, height, width, channels)");
}

void require_window(const WindowAxes& axes, const Shape& x, std::string_view where) {
  const WindowAxis &rows = axes.rows, &columns = axes.columns;
  require(rows.stride > 0 && columns.stride > 0, where, fmt::format("the steps are {} x {}", rows.stride, columns.stride),
          "steps of 1 or more");
  const bool padded = rows.before >= 0 && rows.after >= 0 && columns.before >= 0 && columns.after >= 0;
  require(padded, where, fmt::format("the padding is {}, {}, {}, {}", rows.before, rows.after, columns.before, columns.after),
          "top, bottom, left and right of 0 or more");
  require(rows.kernel > 0 && columns.kernel > 0, where, fmt::format("the kernel is {} x {}", rows.kernel, columns.kernel),
          "a kernel of 1 x 1 or more");
  require(rows.outputs() > 0 && columns.outputs() > 0, where,
          fmt::format("the kernel is {} x {} and x {} with its padding {} x {}", rows.kernel, columns.kernel, to_text(x),
                      rows.size + rows.before + rows.after, columns.size + columns.before + columns.after),
          "a kernel that fits into the padded image");
}

}  // namespace plimsoll::ops
