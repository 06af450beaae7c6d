"""Roles, where Paddle keeps them."""

from ...._missing import missing_names
from ..role import PaddleCloudRoleMaker, Role, RoleMakerBase, UserDefinedRoleMaker

__all__ = ["PaddleCloudRoleMaker", "Role", "RoleMakerBase", "UserDefinedRoleMaker"]

__getattr__ = missing_names(__name__)
