"""For tests of Laxity and of what others build on it: a node in virtual time, and the contract
that every policy keeps. Needs no test framework, only something that collects `test_` methods.
"""

from laxity.testing.node import Completion, VirtualNode
from laxity.testing.policies import PolicyContract

__all__ = ["Completion", "PolicyContract", "VirtualNode"]
