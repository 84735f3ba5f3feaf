#include "ops/cases/bound_case.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "device/cpu/parallel.h"

namespace plimsoll::test {
namespace {

std::size_t bytes_of(const ValueType& type) { return extent(dense_bytes(type.shape, type.dtype)); }

bool updates(const std::vector<Alias>& aliases, std::size_t input) {
  return std::any_of(aliases.begin(), aliases.end(),
                     [&](const Alias& alias) { return in_place(alias.kind) && alias.input == input; });
}

KernelChoice choose_on_cpu(const KernelRequest& request) {
  const CpuKernel* kernel = find_cpu_kernel(*request.op);
  return kernel == nullptr || kernel->choose == nullptr ? own_kernel() : kernel->choose(request);
}

std::unique_ptr<Kernel> bind_on_cpu(const KernelRequest& request) {
  const CpuKernel* kernel = find_cpu_kernel(*request.op);
  return kernel == nullptr ? nullptr : kernel->bind(request);
}

}  // namespace

const Backend kCpu{"cpu", choose_on_cpu, bind_on_cpu, [](const OpDef&) { return true; }, false};

GuardedBytes::GuardedBytes(std::size_t size, std::byte fill)
    : size_(size), all_((size + 63) / 64 * 64 + 2 * kGuard), memory_(static_cast<std::byte*>(std::aligned_alloc(64, all_))) {
  std::fill_n(memory_.get(), all_, kSentinel);
  std::fill_n(data(), size, fill);
}

void GuardedBytes::Free::operator()(std::byte* p) const { std::free(p); }

bool GuardedBytes::intact() const {
  const auto sentinels = [](const std::byte* from, const std::byte* to) {
    return std::all_of(from, to, [](std::byte byte) { return byte == kSentinel; });
  };
  return sentinels(memory_.get(), data()) && sentinels(data() + size_, memory_.get() + all_);
}

BoundCase::BoundCase(const OpDef& op, const OpCase& a_case, const std::vector<Numbers>& inputs, const RunOptions& options)
    : op_(op),
      attributes_(a_case.attributes),
      aliases_(aliases_of(op, a_case.attributes)),
      input_types_(input_types(a_case)),
      output_types_(output_types(op, a_case)),
      backend_(*options.backend),
      reversed_(options.reversed) {
  for (std::size_t i = 0; i < input_types_.size(); ++i) {
    add_buffer(bytes_of(input_types_[i]), options.poison, true);
    const bool unread = a_case.overwrite && updates(aliases_, i), taken = options.in_place && options.in_place->input == i;
    as_begun_.back().filled = !unread;
    if (!unread) encode(inputs[i], input_types_[i].dtype, buffers_[i]->data());
    inputs_.push_back(buffers_[i]->data());
    before_.emplace_back();
    if (!taken && !updates(aliases_, i) && !a_case.benchmark) before_.back() = buffers_[i]->copy();
  }
  for (std::size_t output = 0; output < output_types_.size(); ++output) place_output(output, options);
  cpu::set_thread_count(options.threads);
  const KernelRequest request{&op,           &a_case.attributes, input_types_,     output_types_, options.threads,
                              a_case.chunks, a_case.overwrite,   options.in_ranges};
  choice_ = backend_.choose(request);
  kernel_ = backend_.bind(request);
  ensure(kernel_ != nullptr, "cases", "an op has no kernel");
  add_buffer(extent(choice_.scratch.n), options.poison, false);
  scratch_ = buffers_.back()->data();
}

void BoundCase::add_buffer(std::size_t bytes, std::byte fill, bool wanted) {
  const GuardedBytes& buffer = *buffers_.emplace_back(std::make_unique<GuardedBytes>(bytes, fill));
  as_begun_.push_back({buffer.with_guards(), {buffer.data(), bytes}, false, wanted});
}

void BoundCase::place_output(std::size_t output, const RunOptions& options) {
  for (const Alias& alias : aliases_) {
    if (alias.output == output && in_place(alias.kind)) return outputs_.push_back(inputs_[alias.input]);
  }
  if (options.in_place && options.in_place->output == output) return outputs_.push_back(inputs_[options.in_place->input]);
  add_buffer(bytes_of(output_types_[output]), options.poison, true);
  outputs_.push_back(buffers_.back()->data());
}

void BoundCase::run() {
  run_calls([&] { call(inputs_, outputs_, {}); });
}

// Operands that are ranges begin with theirs: those of an update in place are the same bytes.
void BoundCase::run_in_ranges(std::int64_t elements) {
  const RangeRule rule = op_.ranges(attributes_, input_types_);
  const std::int64_t all = input_types_[rule.inputs.front()].shape.elements();
  run_calls([&] {
    for (int pass = 0; pass < rule.passes; ++pass) {
      for (std::int64_t begin = 0; begin < all; begin += elements) {
        std::vector<std::byte*> inputs = inputs_, outputs = outputs_;
        for (const std::size_t input : rule.inputs) inputs[input] += begin * size_of(input_types_[input].dtype);
        for (const Alias& alias : aliases_) {
          if (in_place(alias.kind)) outputs[alias.output] = inputs[alias.input];
        }
        call(std::move(inputs), std::move(outputs), {begin, std::min(elements, all - begin), pass});
      }
    }
  });
}

void BoundCase::run_calls(const std::function<void()>& calls) {
  if (backend_.set_emulation != nullptr) backend_.set_emulation(reversed_);
  if (backend_.elsewhere == nullptr) return calls();
  elsewhere_ = backend_.elsewhere(as_begun_);
  elsewhere_->run(calls);
  elsewhere_.reset();
}

void BoundCase::call(std::vector<std::byte*> inputs, std::vector<std::byte*> outputs, const NodeRange& range) {
  if (elsewhere_ == nullptr) return kernel_->run({inputs, outputs, scratch_, range});
  for (auto* addresses : {&inputs, &outputs}) {
    for (std::byte*& address : *addresses) address = elsewhere_->address(address);
  }
  kernel_->run({inputs, outputs, elsewhere_->address(scratch_), range, elsewhere_->stream()});
}

std::vector<Numbers> BoundCase::outputs() const {
  std::vector<Numbers> result;
  for (std::size_t i = 0; i < outputs_.size(); ++i) result.push_back(decode(outputs_[i], output_types_[i]));
  return result;
}

std::vector<std::vector<std::byte>> BoundCase::output_bytes() const {
  std::vector<std::vector<std::byte>> result;
  for (std::size_t i = 0; i < outputs_.size(); ++i) result.emplace_back(outputs_[i], outputs_[i] + bytes_of(output_types_[i]));
  return result;
}

std::string BoundCase::faults() const {
  std::string text;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const bool input = i < inputs_.size(), scratch = i + 1 == buffers_.size();
    if (!buffers_[i]->intact())
      text += fmt::format("a write outside {} {}; ", input ? "input" : scratch ? "scratch" : "output", i);
    if (input && before_[i] && *before_[i] != buffers_[i]->copy()) text += fmt::format("input {} has changed; ", i);
  }
  return text;
}

std::vector<Numbers> reference_outputs(const OpCases& cases, const OpCase& a_case, std::vector<Numbers> inputs) {
  const std::vector<ValueType> from = input_types(a_case), to = output_types(*cases.op, a_case);
  for (const Alias& alias : aliases_of(*cases.op, a_case.attributes)) {
    if (a_case.overwrite && alias.kind == AliasKind::accumulates) std::ranges::fill(inputs[alias.input], 0.0);
  }
  return cases.reference({a_case.attributes, from, to, inputs});
}

}  // namespace plimsoll::test
