"""scikit-learn's conventions, by its own checks where they apply; and the package without scikit-learn."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sklearn.utils import estimator_checks

from convexstruct import estimators

#: Checks that bring no data. The others bring a table and one label a row: no sequences, graphs or symbols.
OF_PARAMETERS = (
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)


@pytest.mark.parametrize("check", OF_PARAMETERS)
@pytest.mark.parametrize("name", [name for name in estimators.__all__ if name.endswith("Tagger")])
def test_taggers_pass_the_checks_that_bring_no_data(name: str, check: str) -> None:
    getattr(estimator_checks, check)(name, getattr(estimators, name)())


@pytest.mark.parametrize("name", [name for name in estimators.__all__ if hasattr(getattr(estimators, name), "fit")])
def test_an_unknown_argument_is_refused_in_the_name_of_the_estimator(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}.__init__\(\) got an unexpected keyword argument 'c'"):
        getattr(estimators, name)(c=1.0)


def test_without_scikit_learn_the_package_works_and_the_room_says_what_it_needs() -> None:
    code = (
        "import importlib.util, sys; sys.modules['sklearn'] = None; import convexstruct as cs\n"
        "cs.ConditionalRandomField\ntry: cs.estimators.ChainTagger\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "convexstruct.estimators needs scikit-learn: pip install 'convexstruct[estimators]'\n"
