#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

TEST(Recurrent, OneStepOfAnLstmCell) {
  HostTensor input(DataType::kFloat, {1, 4}, {1, 2, 3, 4});
  HostTensor hidden(DataType::kFloat, {1, 4}, {0, 0, -3, 0});
  HostTensor cx(DataType::kFloat, {1, 1}, {0.5});
  HostTensor hy(DataType::kFloat, {1, 1});
  HostTensor cy(DataType::kFloat, {1, 1});
  HostTensor storage(DataType::kFloat, {1, 4});
  TestCall call;
  call.in(input).in(hidden).in(cx).absent().absent().out(hy).out(cy).out(storage);
  ASSERT_TRUE(call.run(lstm_cell).is_ok());
  const float c = sigmoid(2) * 0.5F;
  EXPECT_NEAR(cy.values()[0], c, 1e-6);
  EXPECT_NEAR(hy.values()[0], sigmoid(4) * std::tanh(c), 1e-6);
  EXPECT_NEAR(storage.values()[2], 0, 1e-6);
  TestCall wrong;
  wrong.in(cx).in(hidden).in(cx).absent().absent().out(hy).out(cy).out(storage);
  EXPECT_EQ(wrong.run(lstm_cell).code(), kParameterInvalid);
}

/// An LSTM of one value: all weights 0 but those of the cell gate, so that its state adds up tanh(x) / 2 and halves.
struct TinyLstm {
  HostTensor weights{DataType::kFloat, {4, 1}, {0, 0, 1, 0}};
  HostTensor recurrent{DataType::kFloat, {4, 1}, {0, 0, 0, 0}};
  HostTensor output{DataType::kFloat, {3, 2, 1}};
  HostTensor hy{DataType::kFloat, {1, 2, 1}};
  HostTensor cy{DataType::kFloat, {1, 2, 1}};

  Status run(HostTensor& input, HostTensor* batch_sizes) {
    TestCall call;
    call.in(input).in_list({&weights, &recurrent}).in_list({});
    batch_sizes == nullptr ? call.absent() : call.in(*batch_sizes);
    call.boolean(false).integer(1).number(0).boolean(false).boolean(false).boolean(false);
    call.out(output).out(hy).out(cy);
    for (int list = 0; list < 7; ++list) call.out_list({});
    return call.run(lstm);
  }
};

TEST(Recurrent, LstmKeepsAState) {
  TinyLstm net;
  HostTensor input(DataType::kFloat, {3, 2, 1}, {1, 0, 0, 1, 0, 0});
  ASSERT_TRUE(net.run(input, nullptr).is_ok());
  const double t = std::tanh(1.0);
  EXPECT_NEAR(net.cy.values()[0], t / 8, 1e-6);
  EXPECT_NEAR(net.cy.values()[1], t / 4, 1e-6);
  EXPECT_NEAR(net.output.values()[0], 0.5 * std::tanh(t / 2), 1e-6);
  EXPECT_NEAR(net.hy.values()[1], 0.5 * std::tanh(t / 4), 1e-6);
}

TEST(Recurrent, RowsThatABatchSizeLeavesOutKeepTheirState) {
  TinyLstm net;
  HostTensor input(DataType::kFloat, {6, 1}, {1, 0, 0, 1, 0, 5});
  HostTensor sizes = testing::tensor<int64_t>({3}, {2, 2, 1});
  ASSERT_TRUE(net.run(input, &sizes).is_ok());
  const double t = std::tanh(1.0);
  EXPECT_NEAR(net.cy.values()[0], t / 8, 1e-6);
  EXPECT_NEAR(net.cy.values()[1], t / 2, 1e-6);
  EXPECT_EQ(net.output.values()[5], 0);
  HostTensor wrong = testing::tensor<int64_t>({3}, {2, 3, 1});
  EXPECT_EQ(net.run(input, &wrong).code(), kParameterInvalid);
}

TEST(Recurrent, WeightsOfAWrongShapeAreRefused) {
  TinyLstm net;
  HostTensor input(DataType::kFloat, {3, 2, 2});
  EXPECT_EQ(net.run(input, nullptr).code(), kParameterInvalid);
  HostTensor flat(DataType::kFloat, {6});
  EXPECT_EQ(net.run(flat, nullptr).code(), kParameterInvalid);
}

TEST(Recurrent, GruMixesItsStateAndANewValue) {
  // All weights 0: r = z = 1/2, n = tanh(bias of n), h = n / 2 + h / 2.
  HostTensor input(DataType::kFloat, {2, 1, 1}, {1, 1});
  HostTensor weights(DataType::kFloat, {3, 1}, {0, 0, 0});
  HostTensor recurrent(DataType::kFloat, {3, 1}, {0, 0, 0});
  HostTensor input_bias(DataType::kFloat, {3}, {0, 0, 1});
  HostTensor hidden_bias(DataType::kFloat, {3}, {0, 0, 2});
  HostTensor hx(DataType::kFloat, {1, 1, 1}, {1});
  HostTensor output(DataType::kFloat, {2, 1, 1});
  HostTensor hy(DataType::kFloat, {1, 1, 1});
  TestCall call;
  call.in(input).in_list({&weights, &recurrent, &input_bias, &hidden_bias}).in(hx).absent();
  call.boolean(true).integer(1).number(0).boolean(false).boolean(false).boolean(false).out(output).out(hy);
  for (int list = 0; list < 5; ++list) call.out_list({});
  ASSERT_TRUE(call.run(gru).is_ok());
  const double n = std::tanh(2.0);
  EXPECT_NEAR(output.values()[0], n / 2 + 0.5, 1e-6);
  EXPECT_NEAR(hy.values()[0], 0.75 * n + 0.25, 1e-6);
}

/// One step of DynamicRNN with weights of 0 but those of the cell gate: c = tanh(x) / 2.
struct TinyRnn {
  HostTensor weight{DataType::kFloat, {2, 4}, {0, 0, 1, 0, 0, 0, 0, 0}};
  HostTensor bias{DataType::kFloat, {4}, {0, 0, 0, 0}};
  HostTensor outputs[8] = {{DataType::kFloat, {2, 2, 1}}, {DataType::kFloat, {2, 2, 1}}, {DataType::kFloat, {2, 2, 1}},
                           {DataType::kFloat, {2, 2, 1}}, {DataType::kFloat, {2, 2, 1}}, {DataType::kFloat, {2, 2, 1}},
                           {DataType::kFloat, {2, 2, 1}}, {DataType::kFloat, {2, 2, 1}}};

  Status run(HostTensor& input, HostTensor& mask, const char* gate_order) {
    TestCall call;
    call.in(input).in(weight).in(bias).in(mask).absent().absent().text("UNIDIRECTIONAL").text(gate_order);
    for (HostTensor& output : outputs) call.out(output);
    return call.run(dynamic_rnn);
  }
};

TEST(Recurrent, LegacyRowsOutsideOfTheMaskKeepTheirState) {
  TinyRnn net;
  HostTensor input(DataType::kFloat, {2, 2, 1}, {1, 1, 0, 5});
  HostTensor mask(DataType::kFloat16, {2, 2, 1}, {1, 1, 1, 0});
  ASSERT_TRUE(net.run(input, mask, "ifjo").is_ok());
  const double t = std::tanh(1.0);
  EXPECT_NEAR(net.outputs[2].values()[2], t / 4, 1e-6);
  EXPECT_NEAR(net.outputs[2].values()[3], t / 2, 1e-6);
  EXPECT_EQ(net.outputs[0].values()[3], 0);
  EXPECT_EQ(net.run(input, mask, "ijfo").code(), kNotComputed);
  HostTensor unsorted(DataType::kFloat16, {2, 2, 1}, {0, 1, 1, 1});
  EXPECT_EQ(net.run(input, unsorted, "ifjo").code(), kNotComputed);
  HostTensor short_mask(DataType::kFloat16, {1, 2, 1}, {1, 1});
  EXPECT_EQ(net.run(input, short_mask, "ifjo").code(), kParameterInvalid);
  HostTensor wide(DataType::kFloat, {2, 2, 3});
  EXPECT_EQ(net.run(wide, mask, "ifjo").code(), kParameterInvalid);
}

}  // namespace
}  // namespace drydock::ops::kernels
