#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/thread_pool.h"
#include "ops/complex/complex.h"

// Short-time Fourier transforms: of each frame of a signal, weighed by a window.

namespace drydock::ops::kernels {
namespace {

/// The discrete Fourier transform of one length: by halves where the length is a power of two, else term by term.
class Transform {
 public:
  explicit Transform(int64_t length) : length_(length), turns_(static_cast<size_t>(length)) {
    for (int64_t k = 0; k < length; ++k) {
      turns_[static_cast<size_t>(k)] =
          std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length));
    }
  }

  /// The first `kept` elements of the transform of `values`, which has length() elements.
  void run(const Complex* values, int64_t kept, Complex* results) const {
    if (std::has_single_bit(static_cast<uint64_t>(length_))) {
      std::vector<Complex> whole(static_cast<size_t>(length_));
      by_halves(values, 1, length_, whole.data());
      std::copy_n(whole.begin(), kept, results);
      return;
    }
    for (int64_t k = 0; k < kept; ++k) {
      Complex total = 0.0;
      for (int64_t m = 0, turn = 0; m < length_; ++m, turn = (turn + k) % length_) {
        total += values[m] * turns_[static_cast<size_t>(turn)];
      }
      results[k] = total;
    }
  }

 private:
  void by_halves(const Complex* values, int64_t step, int64_t length, Complex* results) const {
    if (length == 1) {
      results[0] = values[0];
      return;
    }
    const int64_t half = length / 2;
    by_halves(values, 2 * step, half, results);
    by_halves(values + step, 2 * step, half, results + half);
    for (int64_t k = 0; k < half; ++k) {
      const Complex even = results[k];
      const Complex odd = results[half + k] * turns_[static_cast<size_t>(k * step)];
      results[k] = even + odd;
      results[half + k] = even - odd;
    }
  }

  int64_t length_;
  std::vector<Complex> turns_;
};

/// The window in the middle of a frame; without one all of `win_length` weighs 1.
std::vector<Complex> window_of(const TensorView& window, int64_t win_length, int64_t n_fft) {
  std::vector<Complex> weights(static_cast<size_t>(n_fft));
  const auto middle = weights.begin() + (n_fft - win_length) / 2;
  if (!window.defined) {
    std::fill_n(middle, win_length, Complex(1.0));
    return weights;
  }
  std::vector<Complex> buffer(static_cast<size_t>(win_length));
  std::copy_n(Rows(window, 0).read<Complex>(0, buffer.data()), win_length, middle);
  return weights;
}

}  // namespace

/// aclStft(self, windowOptional, out, nFft, hopLength, winLength, normalized, onesided, returnComplex): self is (L) or
/// (B, L); out is (B, N, T) of complex elements or (B, N, T, 2) of real ones, N = nFft / 2 + 1 if one-sided, else nFft.
Status stft(KernelCall& call) {
  const TensorView& self = call.operand(0);
  const TensorView& window = call.operand(1);
  const TensorView& out = call.output(0);
  if (!self.defined || !out.defined) return not_computed(call, "self or out is null");
  if (!is_floating(self.dtype) || !is_floating(out.dtype) || (window.defined && !is_floating(window.dtype))) {
    return not_computed(call, "elements of these types are not computed");
  }
  const int64_t n_fft = call.integer(0);
  const int64_t hop = call.integer(1);
  const int64_t win_length = call.integer(2);
  const int rank = self.dims.size();
  if (rank < 1 || rank > 2) return invalid(call, "self must be a signal or a batch of signals");
  const int64_t length = self.dims[rank - 1];
  if (n_fft < 1 || n_fft > length) return invalid(call, "nFft must be from 1 to the length of the signal");
  if (hop < 1) return invalid(call, "hopLength must be positive");
  if (win_length < 1 || win_length > n_fft) return invalid(call, "winLength must be from 1 to nFft");
  if (window.defined && !(window.dims == Dims{win_length})) return invalid(call, "window must have winLength elements");
  const bool one_sided = call.boolean(1);
  if (one_sided && is_complex_type(self.dtype)) return invalid(call, "a complex signal has no one-sided transform");
  const int64_t kept = one_sided ? n_fft / 2 + 1 : n_fft;
  const int64_t frames = (length - n_fft) / hop + 1;
  Dims expected = rank == 2 ? Dims{self.dims[0], kept, frames} : Dims{kept, frames};
  if (!is_complex_type(out.dtype)) expected.push_back(2);
  if (!(out.dims == expected)) {
    return invalid(call, "out is " + text_of(out.dims) + ", the transform is " + text_of(expected));
  }
  const std::vector<Complex> weights = window_of(window, win_length, n_fft);
  const Transform transform(n_fft);
  const double scale = call.boolean(0) ? 1 / std::sqrt(static_cast<double>(n_fft)) : 1.0;
  const Rows signals(self, rank - 1);
  Dims inner;
  for (int axis = rank - 1; axis < out.dims.size(); ++axis) inner.push_back(axis);
  const Rows spectra(out, inner);
  std::vector<Complex> buffer(static_cast<size_t>(length));
  std::vector<Complex> spectrum(static_cast<size_t>(kept * frames));
  for (int64_t batch = 0; batch < signals.count(); ++batch) {
    const Complex* signal = signals.read<Complex>(batch, buffer.data());
    base::parallel_for(frames, 16, [&](int64_t begin, int64_t end) {
      std::vector<Complex> frame(static_cast<size_t>(n_fft));
      std::vector<Complex> bins(static_cast<size_t>(kept));
      for (int64_t at = begin; at < end; ++at) {
        for (int64_t m = 0; m < n_fft; ++m) {
          frame[static_cast<size_t>(m)] = weights[static_cast<size_t>(m)] * signal[at * hop + m];
        }
        transform.run(frame.data(), kept, bins.data());
        for (int64_t k = 0; k < kept; ++k) {
          spectrum[static_cast<size_t>(k * frames + at)] = scale * bins[static_cast<size_t>(k)];
        }
      }
    });
    if (is_complex_type(out.dtype)) {
      spectra.write<Complex>(batch, spectrum.data());
    } else {
      // A complex number is its real and its imaginary part, one after the other.
      spectra.write<double>(batch, reinterpret_cast<const double*>(spectrum.data()));
    }
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
