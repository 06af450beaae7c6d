"""Seeds: the same numbers for the same seed, in both modes."""

import bireme as paddle


def first_weight():
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.utils.unique_name.guard(), paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [None, 2], "float32")
        paddle.static.nn.fc(x, 3)
    scope = paddle.static.Scope()
    paddle.static.Executor().run(startup, scope=scope)
    return scope.find_var("fc_0.w_0").get_tensor().__array__().tolist()


def test_programs_follow_the_seed():
    paddle.enable_static()
    weights = []
    for seed in (1, 2, 1):
        paddle.seed(seed)
        weights.append(first_weight())
    assert weights[0] == weights[2] != weights[1]


def test_the_default_programs_follow_it_too():
    paddle.seed(5)
    assert paddle.static.default_startup_program().random_seed == 5
    paddle.static.default_startup_program().random_seed = 9
    paddle.seed(6)
    assert paddle.static.default_startup_program().random_seed == 9
    assert paddle.static.default_main_program().random_seed == 6


def test_params_grads_come_in_the_order_of_the_parameters():
    paddle.enable_static()
    x = paddle.static.data("x", [None, 2], "float32")
    hidden = paddle.static.nn.fc(x, 2, weight_attr=paddle.ParamAttr(name="z"), bias_attr=False)
    out = paddle.static.nn.fc(hidden, 1, weight_attr=paddle.ParamAttr(name="a"), bias_attr=False)
    _, pairs = paddle.optimizer.SGD(0.1).minimize(paddle.mean(out))
    assert [param.name for param, _ in pairs] == ["z", "a"]
