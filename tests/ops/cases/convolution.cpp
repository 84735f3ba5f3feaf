#include "ops/convolution/convolution.h"

#include <utility>

#include "ops/cases/cases.h"
#include "ops/rules.h"

namespace plimsoll::test {
namespace {

using ops::ConvolutionAttributes;
using ops::ConvolutionInputAttributes;
using ops::ConvolutionWeightAttributes;
using ops::Window;

// The extents of a convolution; `w` [kernel height, kernel width, channels / groups, outputs].
struct Extents {
  Shape x, w, y;
  Window window;
  std::int64_t groups;
};

// Calls visit(element of x, element of w, element of y) for each product of a convolution.
template <class Visit>
void for_products(const Extents& e, Visit visit) {
  const std::int64_t channels = e.w[2], outputs = e.w[3] / e.groups;
  for (std::int64_t b = 0; b < e.y[0]; ++b) {
    for (std::int64_t i = 0; i < e.y[1]; ++i) {
      for (std::int64_t j = 0; j < e.y[2]; ++j) {
        for (std::int64_t ky = 0; ky < e.w[0]; ++ky) {
          for (std::int64_t kx = 0; kx < e.w[1]; ++kx) {
            const std::int64_t row = i * e.window.stride_h + ky - e.window.top,
                               column = j * e.window.stride_w + kx - e.window.left;
            if (row < 0 || row >= e.x[1] || column < 0 || column >= e.x[2]) continue;
            for (std::int64_t o = 0; o < e.w[3]; ++o) {
              for (std::int64_t c = 0; c < channels; ++c) {
                visit(extent(((b * e.x[1] + row) * e.x[2] + column) * e.x[3] + o / outputs * channels + c),
                      extent(((ky * e.w[1] + kx) * channels + c) * e.w[3] + o),
                      extent(((b * e.y[1] + i) * e.y[2] + j) * e.y[3] + o));
              }
            }
          }
        }
      }
    }
  }
}

std::vector<Numbers> forward(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ConvolutionAttributes>();
  const Shape y = call.outputs[0].shape;
  Numbers out(extent(y.elements()));
  for (std::size_t i = 0; a.bias && i < out.size(); ++i) out[i] = call.values[2][i % extent(y[3])];
  for_products({call.shape(0), call.shape(1), y, a.window, a.groups},
               [&](std::size_t x, std::size_t w, std::size_t at) { out[at] += call.values[0][x] * call.values[1][w]; });
  return {out};
}

std::vector<Numbers> input_gradient(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ConvolutionInputAttributes>();
  Numbers out(elements(call.outputs[0]));
  for_products({call.outputs[0].shape, call.shape(1), call.shape(0), a.window, a.groups},
               [&](std::size_t x, std::size_t w, std::size_t y) { out[x] += call.values[0][y] * call.values[1][w]; });
  return {out};
}

std::vector<Numbers> weight_gradient(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ConvolutionWeightAttributes>();
  Numbers out = a.accumulate ? call.values[2] : Numbers(elements(call.outputs[0]));
  for_products({call.shape(0), call.outputs[0].shape, call.shape(1), a.window, a.groups},
               [&](std::size_t x, std::size_t w, std::size_t y) { out[w] += call.values[0][x] * call.values[1][y]; });
  return {out};
}

struct Layer {
  std::int64_t batch, height, width, channels, kernel_h, kernel_w, outputs;
  Window window = {};
  std::int64_t groups = 1;
  bool bias = false;

  Shape x() const { return {batch, height, width, channels}; }
  Shape w() const { return {kernel_h, kernel_w, channels / groups, outputs}; }
  Shape y() const {
    const ops::WindowAxes axes(height, width, kernel_h, kernel_w, window);
    return {batch, axes.rows.outputs(), axes.columns.outputs(), outputs};
  }
};

OpCase forward_case(const Layer& l) {
  OpCase result{ConvolutionAttributes{.window = l.window, .groups = l.groups, .bias = l.bias}, {wanted(l.x()), wanted(l.w())}};
  if (l.bias) result.inputs.push_back(wanted({l.outputs}));
  return result;
}
OpCase input_case(const Layer& l) {
  return {ConvolutionInputAttributes{l.window, l.groups, l.height, l.width}, {f32(l.y()), f32(l.w())}};
}
OpCase weight_case(const Layer& l, bool accumulate = false) {
  OpCase result{ConvolutionWeightAttributes{l.window, l.groups, l.kernel_h, l.kernel_w, accumulate}, {f32(l.x()), f32(l.y())}};
  if (accumulate) result.inputs.push_back(f32(l.w()));
  return result;
}

const std::vector<Layer>& layers() {
  static const std::vector<Layer> list{
      {1, 1, 1, 1, 1, 1, 1},
      {2, 5, 7, 3, 3, 3, 8, ops::square_window(1, 1), 1, true},    // 3 channels
      {3, 9, 8, 1, 5, 3, 5, {2, 1, 1, 2, 0, 1}},                   // 1 channel, uneven padding and steps
      {1, 23, 23, 3, 7, 7, 16, ops::square_window(2, 3)},          // a stem
      {2, 6, 5, 16, 3, 3, 17, ops::square_window(1, 1), 1, true},  // whole lines of channels
      {2, 7, 9, 20, 3, 3, 24, {2, 2, 0, 1, 0, 1}},                 // padding of TensorFlow
      {9, 4, 4, 24, 3, 3, 64, ops::square_window(1, 1)},           // small images, many of them
      {9, 5, 3, 18, 3, 3, 65, ops::square_window(2, 1)},
      {2, 7, 7, 17, 1, 1, 19, ops::square_window(2)},  // steps above the kernel
      {1, 8, 9, 33, 2, 3, 5, {4, 5, 1, 1, 0, 2}, 1, true},
      {2, 5, 6, 130, 1, 1, 7, {}, 1, true},             // a product
      {1, 6, 6, 8, 2, 2, 6, ops::square_window(2), 2},  // groups
      {2, 5, 5, 40, 3, 3, 20, ops::square_window(1, 1), 2, true},
      {2, 5, 7, 12, 3, 3, 24, ops::square_window(1, 1), 12},         // two outputs for each channel
      {1, 3, 3, 4, 3, 3, 4, ops::square_window(1, 4)},               // more padding than kernel
      {2, 9, 11, 19, 3, 3, 19, ops::square_window(1, 1), 19, true},  // depthwise
      {1, 8, 8, 16, 3, 3, 16, {2, 2, 0, 1, 0, 1}, 16},
      {3, 7, 5, 33, 5, 5, 33, ops::square_window(2, 2), 33},
      {1, 4, 13, 40, 7, 6, 40, ops::square_window(1, 3), 40},
      {1, 2, 2, 5, 1, 1, 5, ops::square_window(3), 5},
  };
  return list;
}

// Sums in several blocks, strips and bands: too slow for differences.
const std::vector<Layer>& large_layers() {
  static const std::vector<Layer> list{
      {1, 6, 7, 150, 3, 3, 140, ops::square_window(1, 1), 1, true}, {8, 10, 10, 20, 3, 3, 40, ops::square_window(2, 1)},
      {2, 40, 33, 16, 3, 3, 16, ops::square_window(1, 1)},          {10, 2, 2, 64, 3, 3, 130, ops::square_window(1, 1)},
      {4, 33, 35, 3, 3, 3, 20, ops::square_window(1, 1)},           {1, 70, 3, 17, 3, 1, 300, ops::square_window(1)},
  };
  return list;
}

OpCase without_gradient(OpCase a_case) { return with_inputs_of(DType::f32, {}, std::move(a_case)); }

const std::vector<Layer>& timed_layers() {
  const Window same = ops::square_window(1, 1), half = ops::square_window(2, 1);
  static const std::vector<Layer> list{
      {64, 32, 32, 3, 3, 3, 64, same},
      {64, 32, 32, 64, 3, 3, 64, same},
      {64, 32, 32, 64, 3, 3, 128, half},
      {64, 16, 16, 128, 3, 3, 128, same},
      {64, 8, 8, 256, 3, 3, 256, same},
      {64, 4, 4, 512, 3, 3, 512, same},
      {64, 32, 32, 64, 1, 1, 128, ops::square_window(2)},
      {32, 64, 64, 3, 7, 7, 64, ops::square_window(2, 3)},
      {32, 16, 16, 64, 3, 3, 64, same},
      {32, 8, 8, 128, 3, 3, 128, same},
      {32, 4, 4, 256, 3, 3, 256, same},
      {32, 2, 2, 512, 3, 3, 512, same},
      {32, 16, 16, 128, 3, 3, 128, half},
      {32, 32, 32, 96, 3, 3, 96, half, 96},
      {32, 16, 16, 144, 3, 3, 144, same, 144},
      {32, 8, 8, 192, 3, 3, 192, same, 192},
      {32, 4, 4, 384, 3, 3, 384, same, 384},
      {32, 32, 32, 32, 3, 3, 32, same, 32},
  };
  return list;
}

// The cases of layers, with those of 16-bit operands and results.
std::vector<OpCase> cases_of(OpCase (*make)(const Layer&), bool rounds) {
  std::vector<OpCase> cases;
  for (const Layer& each : layers()) cases.push_back(make(each));
  for (const Layer& each : large_layers()) cases.push_back(without_gradient(make(each)));
  const std::vector<OpCase> wide = cases;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const OpCase& each : wide) {
      cases.push_back(with_inputs_of(dtype, {0, 1}, each));
      if (!rounds) continue;
      cases.push_back(cases.back());
      Attributes& attributes = cases.back().attributes;
      if (make == input_case) {
        attributes = ops::with_output<ConvolutionInputAttributes>(attributes, dtype);
      } else {
        attributes = ops::with_output<ConvolutionAttributes>(attributes, dtype);
      }
    }
  }
  for (const Layer& each : timed_layers()) {
    if (make == input_case && each.channels == 3) continue;  // pixels have no gradient
    cases.push_back(timed(make(each)));
    cases.push_back(timed(with_inputs_of(DType::bf16, {0, 1}, make(each))));
  }
  return cases;
}

std::vector<OpCase> weight_cases() {
  std::vector<OpCase> cases = cases_of([](const Layer& layer) { return weight_case(layer); }, false);
  for (const std::vector<Layer>* list : {&layers(), &large_layers()}) {
    for (const Layer& each : *list) {
      cases.push_back(weight_case(each, true));
      cases.push_back(in_window(weight_case(each, true)));
    }
  }
  return cases;
}

// The patches of x, as pairs (element of x, element of y).
template <class Visit>
void for_patches(const Shape& x, std::int64_t height, std::int64_t width, Visit visit) {
  std::size_t at = 0;
  for (std::int64_t b = 0; b < x[0]; ++b) {
    for (std::int64_t i = 0; i < x[1] / height; ++i) {
      for (std::int64_t j = 0; j < x[2] / width; ++j) {
        for (std::int64_t row = i * height; row < (i + 1) * height; ++row) {
          for (std::int64_t column = j * width; column < (j + 1) * width; ++column) {
            for (std::int64_t c = 0; c < x[3]; ++c) visit(extent(((b * x[1] + row) * x[2] + column) * x[3] + c), at++);
          }
        }
      }
    }
  }
}

std::vector<Numbers> patches(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::PatchAttributes>();
  Numbers out(elements(call.outputs[0]));
  for_patches(call.shape(0), a.height, a.width, [&](std::size_t x, std::size_t y) { out[y] = call.values[0][x]; });
  return {out};
}

std::vector<Numbers> patches_backward(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::PatchBackwardAttributes>();
  Numbers out(elements(call.outputs[0]));
  for_patches(call.outputs[0].shape, a.height, a.width, [&](std::size_t x, std::size_t y) { out[x] = call.values[0][y]; });
  return {out};
}

struct Cutting {
  Shape x;
  std::int64_t height, width;
};
const std::vector<Cutting>& cuttings() {
  static const std::vector<Cutting> list{
      {{1, 1, 1, 1}, 1, 1}, {{2, 8, 12, 3}, 4, 4}, {{2, 7, 9, 5}, 2, 3}, {{1, 6, 40, 16}, 3, 2}, {{3, 32, 32, 3}, 16, 16}};
  return list;
}

std::vector<OpCase> patch_cases() {
  std::vector<OpCase> cases;
  for (const Cutting& c : cuttings()) {
    cases.push_back({ops::PatchAttributes{c.height, c.width}, {wanted(c.x)}});
    for (const DType dtype : {DType::bf16, DType::f16}) {
      cases.push_back({ops::PatchAttributes{c.height, c.width, dtype}, {f32(c.x)}});
      cases.push_back(with_inputs_of(dtype, {0}, cases.back()));
      cases.push_back(with_inputs_of(dtype, {0}, {ops::PatchAttributes{c.height, c.width}, {f32(c.x)}}));
    }
  }
  cases.push_back(timed({ops::PatchAttributes{16, 16}, {f32({32, 224, 224, 3})}}));
  return cases;
}

std::vector<OpCase> patch_backward_cases() {
  std::vector<OpCase> cases;
  for (const Cutting& c : cuttings()) {
    const Shape y{c.x[0], c.x[1] / c.height, c.x[2] / c.width, c.height * c.width * c.x[3]};
    const auto with = [&](DType output) {
      return OpCase{ops::PatchBackwardAttributes{c.height, c.width, c.x[1], c.x[2], output}, {f32(y)}};
    };
    cases.push_back(with(DType::f32));
    for (const DType dtype : {DType::bf16, DType::f16}) {
      cases.push_back(with(dtype));
      cases.push_back(with_inputs_of(dtype, {0}, with(dtype)));
      cases.push_back(with_inputs_of(dtype, {0}, with(DType::f32)));
    }
  }
  return cases;
}

}  // namespace

std::vector<OpCases> convolution_cases() {
  return {{&ops::kConvolution, forward, cases_of(forward_case, true), {}},
          {&ops::kConvolutionInput, input_gradient, cases_of(input_case, true), {}},
          {&ops::kConvolutionWeight, weight_gradient, weight_cases(), {}},
          {&ops::kPatches, patches, patch_cases(), {}},
          {&ops::kPatchesBackward, patches_backward, patch_backward_cases(), {}}};
}

}  // namespace plimsoll::test
